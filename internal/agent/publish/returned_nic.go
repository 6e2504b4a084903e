// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"reflect"

	"plumbline.dev/plumbline/internal/model"
)

// looksLike says whether a NIC is again what it was before it was given away:
// all but its ifindex, which may be another one, and what is not the host's to
// say.
func looksLike(now, before model.NIC) bool {
	return reflect.DeepEqual(hardware(now), hardware(before))
}

// hardware is what a scan alone tells of a NIC.
func hardware(n model.NIC) model.NIC {
	n.Attributes, n.Withheld, n.WithheldForVFs = nil, nil, false
	if n.Interface != nil {
		i := *n.Interface
		i.Index = 0
		n.Interface = &i
	}
	return n
}

// onHost is a NIC as it was before, with what the node needs to know at once:
// under which ifindex it is back, and why it must not be offered again. seen is
// nil while it is not back.
func onHost(before model.NIC, seen *model.NIC) model.NIC {
	if seen == nil {
		return before
	}
	if before.Interface != nil && seen.Interface != nil {
		before.Withheld, before.WithheldForVFs = seen.Withheld, seen.WithheldForVFs
		i := *before.Interface
		i.Index = seen.Interface.Index
		before.Interface = &i
	}
	return before
}
