// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/build"
)

// standIns says what on the node only stands in for the machine's hardware, as
// the slices mark it.
func (d Demo) standIns(ctx context.Context) error {
	var list resourceapi.ResourceSliceList
	if err := d.Kubectl.Get(ctx, &list, "resourceslices", "--field-selector", "spec.nodeName="+d.Node); err != nil {
		return err
	}
	counts := standInCounts(list.Items)
	fmt.Fprintf(d.Out, "\nStand-ins on %s, marked %s:\n", d.Node, slicecodec.AttrSimulated)
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(d.Out, "  %d x %s\n", counts[what], what)
	}
	if d.NVIDIA {
		fmt.Fprintf(d.Out, "GPUs are served by NVIDIA's DRA driver %s, over stand-ins that it cannot tell:\n"+
			"  a bochs-display at each GPU's address, and a libnvidia-ml.so.1 that computes nothing\n", build.NVIDIAVersion)
	}
	return nil
}

// standInCounts counts marked devices by what they are and pass for. The lab
// gives a guest bochs-display functions for GPUs.
func standInCounts(published []resourceapi.ResourceSlice) map[string]int {
	counts := map[string]int{}
	for _, s := range published {
		for _, device := range s.Spec.Devices {
			if !ptr.Deref(device.Attributes[slicecodec.AttrSimulated].BoolValue, false) {
				continue
			}
			switch s.Spec.Driver {
			case slicecodec.DriverGPU:
				counts["bochs-display as "+ptr.Deref(device.Attributes["productName"].StringValue, "a GPU")]++
			case slicecodec.DriverNet:
				counts[ptr.Deref(device.Attributes["dra.net/driver"].StringValue, "an interface")+" as the machine's NIC"]++
			}
		}
	}
	return counts
}
