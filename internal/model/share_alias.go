// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ShareAlias is the alias of the link that a claim has on a NIC that is shared: the same for
// the claim's share whoever computes it, and no other's.
func ShareAlias(claimUID, request, device, shareID string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%s", claimUID, request, device, shareID))
	return "plumbline-" + hex.EncodeToString(sum[:10])
}
