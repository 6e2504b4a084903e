// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package machines carries the facts files that plumbline ships, one real
// machine each. Reading them belongs to internal/machine; nothing but files
// lives here.
package machines

import "embed"

// Files holds NAME.yaml for each shipped machine.
//
//go:embed *.yaml
var Files embed.FS
