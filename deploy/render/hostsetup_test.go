// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Whoever may load kernel modules has nothing else: no token, no port, and of the host's
// files only those writable that it is for.
func TestHostSetup(t *testing.T) {
	hostSetup := func(values string) *appsv1.DaemonSet {
		for _, object := range rendered(t, values) {
			if ds, ok := object.(*appsv1.DaemonSet); ok && ds.Name == "plumbline-host-setup" {
				return ds
			}
		}
		return nil
	}
	if hostSetup("") != nil || hostSetup("{observe: true, hostSetup: {enabled: true}}") != nil {
		t.Error("it is there without being asked for")
	}
	ds := hostSetup("hostSetup: {enabled: true}")
	if ds == nil {
		t.Fatal("it is not there")
	}
	pod := ds.Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Errorf("token %v, host's network %v, PIDs %v, IPC %v", pod.AutomountServiceAccountToken, pod.HostNetwork, pod.HostPID, pod.HostIPC)
	}
	if len(pod.NodeSelector) != 1 || pod.NodeSelector["plumbline.dev/host-setup"] != "true" {
		t.Errorf("node selector %v", pod.NodeSelector)
	}
	c := pod.Containers[0]
	if want := []corev1.Capability{"SYS_MODULE", "SYS_ADMIN", "SYS_CHROOT"}; !slices.Equal(c.SecurityContext.Capabilities.Add, want) ||
		*c.SecurityContext.Privileged || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("security context %+v", c.SecurityContext)
	}
	var writable []string
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			writable = append(writable, m.MountPath)
		}
	}
	if want := []string{"/var/lib/plumbline/host-setup", "/host-sys", "/host-proc-sys"}; !slices.Equal(writable, want) {
		t.Errorf("writable %q, want %q", writable, want)
	}
}
