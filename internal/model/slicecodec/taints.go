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
}

// Taint returns the devices with a taint for each of their faults, which are
// listed by device name. NoSchedule keeps new pods away from a device; NoExecute
// also evicts those that hold it.
func Taint(devices []resourceapi.Device, faults map[string][]model.Fault, effect resourceapi.DeviceTaintEffect) []resourceapi.Device {
	tainted := slices.Clone(devices)
	for i := range tainted {
		of := slices.SortedFunc(slices.Values(faults[tainted[i].Name]), model.CompareFaults)
		for _, f := range of {
			key, known := taintKeys[f.Kind]
			if !known {
				continue
			}
			tainted[i].Taints = append(tainted[i].Taints, resourceapi.DeviceTaint{
				Key: key, Effect: effect, TimeAdded: ptr.To(metav1.NewTime(f.Since)),
			})
		}
	}
	return tainted
}
