// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// Who verifies a pod finds its links by the alias that they are given here.
func TestShareAlias(t *testing.T) {
	share := types.UID("7a6f")
	a := driver.Allocation{Request: "nic/near", Device: "pci-0000-91-00-0", ShareID: &share}
	alias := "plumbline-" + childID(driver.ClaimRef{UID: "c1"}, a)
	if want := model.ShareAlias("c1", "nic/near", "pci-0000-91-00-0", "7a6f"); alias != want {
		t.Errorf("alias %s, want %s", alias, want)
	}
}
