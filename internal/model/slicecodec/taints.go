// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// taintKeys are the keys of device taints (KEP-5055), one for each kind of
// fault, so that a claim can tolerate one of them alone. The value has no message,
// since each change of it would be a write.
var taintKeys = map[model.FaultKind]string{
	model.FaultCarrier: "plumbline.dev/carrier-lost",
	model.FaultSpeed:   "plumbline.dev/link-speed-degraded",
	model.FaultPCIe:    "plumbline.dev/pcie-degraded",
	model.FaultGone:    "plumbline.dev/device-gone",

	model.FaultRDMAPort:  "plumbline.dev/rdma-port-down",
	model.FaultRDMAFiles: "plumbline.dev/rdma-files-missing",
}

// hostFaults are those that checks of the host find, which look now and then: they keep
// new pods away and never evict one.
var hostFaults = []model.FaultKind{model.FaultRDMAPort, model.FaultRDMAFiles}

// Taint returns the devices with a taint for each of their faults, which are
// listed by device name; those of a NIC that is shared are also its twin's. NoSchedule keeps new pods away from a device; NoExecute
// also evicts those that hold it, but for faults that checks of the host found.
func Taint(devices []resourceapi.Device, faults map[string][]model.Fault, effect resourceapi.DeviceTaintEffect) []resourceapi.Device {
	tainted := slices.Clone(devices)
	for i := range tainted {
		name := tainted[i].Name
		if base, twins := hasTwin(DriverNet, tainted[i]); twins {
			name = base
		}
		of := slices.SortedFunc(slices.Values(faults[name]), model.CompareFaults)
		for _, f := range of {
			key, known := taintKeys[f.Kind]
			if !known {
				continue
			}
			taint := resourceapi.DeviceTaint{Key: key, Effect: effect}
			if slices.Contains(hostFaults, f.Kind) {
				taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
			}
			// Without a time the API server sets one, and a taint that is there keeps its.
			if !f.Since.IsZero() {
				taint.TimeAdded = ptr.To(metav1.NewTime(f.Since))
			}
			tainted[i].Taints = append(tainted[i].Taints, taint)
		}
	}
	return tainted
}
