// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netns

// Current in place of a descriptor is the process's own namespace: Do needs no
// privilege for it.
const Current = -1
