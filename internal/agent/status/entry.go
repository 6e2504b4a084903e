// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	conditionReady        = "Ready"
	conditionNetworkReady = "NetworkReady"
	conditionRDMAReady    = "RDMALinkReady"
	// maxMessage is the API's limit of a condition's message.
	maxMessage = 32768
	// maxName is that of an interface's name.
	maxName = resourceapi.NetworkDeviceDataInterfaceNameMaxLength
)

// entryOf is what a claim's status says of one device.
func entryOf(driverName string, d DeviceState, want wanted) resourceapi.AllocatedDeviceStatus {
	kinds := []string{conditionReady}
	if driverName == slicecodec.DriverNet {
		kinds = append(kinds, conditionNetworkReady)
	}
	if d.RDMA {
		kinds = append(kinds, conditionRDMAReady)
	}
	entry := resourceapi.AllocatedDeviceStatus{Driver: driverName, Pool: d.Pool, Device: d.Device, NetworkData: NetworkData(d.Network)}
	if d.Data != nil {
		entry.Data = &runtime.RawExtension{Raw: d.Data}
	}
	for _, kind := range kinds {
		entry.Conditions = append(entry.Conditions, condition(kind, d, want.since))
	}
	if faults := want.faults[d.Device]; len(faults) > 0 {
		entry.Conditions = append(entry.Conditions, unhealthy(faults))
	}
	if a, ok := want.host[d.Device]; ok {
		entry.Conditions = append(entry.Conditions, a.condition())
	}
	if want.aligned != nil {
		entry.Conditions = append(entry.Conditions, want.aligned.conditions()...)
	}
	if d.ShareID != "" {
		entry.ShareID = &d.ShareID
	}
	return entry
}

// NetworkData leaves out what the device does not have, and addresses beyond what
// the API takes of one device: a pod may give its interface any number.
func NetworkData(d *driver.DeviceStatus) *resourceapi.NetworkDeviceData {
	if d == nil {
		return nil
	}
	return &resourceapi.NetworkDeviceData{
		InterfaceName: kube.BoundedText(maxName, d.InterfaceName), HardwareAddress: d.HardwareAddress,
		IPs: d.IPs[:min(len(d.IPs), resourceapi.NetworkDeviceDataMaxIPs)],
	}
}

func condition(kind string, d DeviceState, since time.Time) metav1.Condition {
	status := metav1.ConditionTrue
	if d.Err != nil {
		status = metav1.ConditionFalse
	}
	return metav1.Condition{Type: kind, Status: status, Reason: d.Reason, Message: message(d), LastTransitionTime: atSeconds(since)}
}

// atSeconds is a time as it comes back from the API server.
func atSeconds(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }

// keepTransitions leaves the time of a condition that says the same as before.
func keepTransitions(conditions, before []metav1.Condition) {
	for i := range conditions {
		c := &conditions[i]
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
}

// message is what a condition and an event say.
func message(d DeviceState) string {
	text := d.Note
	if d.Err != nil {
		text = d.Err.Error()
	}
	return kube.BoundedText(maxMessage, text)
}
