// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// ShareNICs has the slices of a node publish some of its NICs as shared, as its agent does
// where a HostPolicy offers them. Without names they are all of its NICs.
func ShareNICs(published []*resourceapi.ResourceSlice, share model.Share, devices ...string) {
	var all []resourceapi.ResourceSlice
	for _, s := range published {
		all = append(all, *s)
	}
	node, err := slicecodec.Decode(all)
	if err != nil {
		panic(err) // a test's own slices
	}
	for i := range node.Machine.NICs {
		node.Machine.NICs[i].Share = &share
	}
	shared := map[string]resourceapi.Device{}
	for _, d := range slicecodec.Encode(node.Machine, slicecodec.DriverNet, slicecodec.CPUOptions{}) {
		if len(devices) == 0 || slices.Contains(devices, d.Name) {
			shared[d.Name] = d
		}
	}
	if len(shared) < max(1, len(devices)) {
		panic(fmt.Sprintf("the slices have %d NICs of %v", len(shared), devices))
	}
	for _, s := range published {
		for i := range s.Spec.Devices {
			if d, ok := shared[s.Spec.Devices[i].Name]; ok && s.Spec.Driver == slicecodec.DriverNet {
				s.Spec.Devices[i] = d
			}
		}
	}
}
