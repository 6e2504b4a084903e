// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// Reasons of conditions and events.
const (
	Prepared      = "Prepared"
	PrepareFailed = "PrepareFailed"
	Attached      = "Attached"
	AttachFailed  = "AttachFailed"
	// Repaired: a pod ran without its device, and has it again.
	Repaired = "Repaired"
	// RestoreFailed: a device is not on the host yet as it was.
	RestoreFailed = "RestoreFailed"
	Restored      = "Restored"
	// RenewFailed: what the device was given for a time may run out.
	RenewFailed = "RenewFailed"
	// Refused: a pod or container that may not start.
	Refused = "Refused"
	// LeftOut: something that a container would be told of its devices, and starts without.
	LeftOut = "LeftOut"
	// PutBack: somebody had moved a container off its CPUs, or onto others'.
	PutBack = "PutBack"
	// Unmirrored: the pod's standard requests are not what its claims give.
	Unmirrored = "Unmirrored"
	// Quarantined: what the claim holds cannot be counted on.
	Quarantined = "Quarantined"
)

// Report is what became of one driver's devices of a claim.
type Report struct {
	Driver string
	Claim  driver.ClaimRef
	Pods   []driver.PodRef
	// Devices are all of them; none means that nothing is to be said any more.
	Devices []DeviceState
}

// DeviceState is what the claim's status says about one device.
type DeviceState struct {
	Pool, Device, ShareID string
	// Err is nil when the device is ready.
	Err    error
	Reason string
	// Note says what happened to a device that is ready.
	Note string
	// RDMA: the claim holds an RDMA device.
	RDMA bool
	// Data is what the driver wants to be known of the device; nil for nothing.
	Data    json.RawMessage
	Network *driver.DeviceStatus // nil for what is in no pod's namespace
}

// Of describes every device of a record alike.
func Of(r driver.Record, reason string, err error) Report {
	out := Report{Driver: r.Driver, Claim: r.Claim, Pods: r.Pods}
	for _, d := range r.Devices {
		out.Devices = append(out.Devices, DeviceState{
			Pool: d.Pool, Device: d.Device, ShareID: d.ShareID, Reason: reason, Err: err, RDMA: d.RDMA || givesVerbs(d), Data: d.StatusData,
		})
	}
	return out
}

// OfAttached is Of with what the driver says of the devices in the pod, and a
// note on what was put right beside the driver's own.
func OfAttached(r driver.Record, reason, note string, found []driver.DeviceStatus) Report {
	out := Of(r, reason, nil)
	for i := range out.Devices {
		out.Devices[i].Note = note
		for j := range found {
			if found[j].Device == out.Devices[i].Device {
				out.Devices[i].Network = &found[j]
				out.Devices[i].Note = strings.Trim(note+"; "+found[j].Note, "; ")
			}
		}
	}
	return out
}

// givesVerbs says whether CDI gives a verbs file, by which the record of an agent before this
// one shows its RDMA device: claims outlive agents.
func givesVerbs(d driver.DeviceRecord) bool {
	return slices.ContainsFunc(d.Edits.DeviceNodes, func(n driver.DeviceNode) bool {
		return strings.HasPrefix(n.Path, "/dev/infiniband/uverbs")
	})
}

// reportEvents tells the pods of a claim what has changed since told: every failure,
// and what was put right, in the words of the conditions. Several devices with
// the same fate are one event.
func reportEvents(e *kube.Events, r Report, told []DeviceState) {
	type event struct {
		warning         bool
		reason, message string
	}
	said := map[event]bool{}
	for _, d := range told {
		said[event{d.Err != nil, d.Reason, message(d)}] = true
	}
	for _, d := range r.Devices {
		now := event{d.Err != nil, d.Reason, message(d)}
		if now.message == "" || said[now] {
			continue
		}
		said[now] = true
		for _, pod := range r.Pods {
			e.Pod(r.Claim.Namespace, pod, now.warning, now.reason, now.message)
		}
	}
}
