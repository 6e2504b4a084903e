// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// There is one DaemonSet for each kernel, on nodes with that kernel and NICs of the vendor,
// and each looks before it unloads anything.
func TestNICDriver(t *testing.T) {
	kernels := map[string]string{}
	for _, object := range rendered(t, `nicDriver: {images: [
		{kernel: 6.8.0-1007-x, image: "registry.example.com/mofed:1"},
		{kernel: 6.1.0, image: "registry.example.com/mofed:2", command: [sh, -c, run], env: [{name: A, value: b}]}]}`) {
		ds, ok := object.(*appsv1.DaemonSet)
		if !ok || !strings.HasPrefix(ds.Name, "plumbline-nic-driver-") {
			continue
		}
		pod := ds.Spec.Template.Spec
		kernel := pod.NodeSelector["feature.node.kubernetes.io/kernel-version.full"]
		kernels[kernel] = pod.Containers[0].Image
		if pod.NodeSelector["feature.node.kubernetes.io/pci-15b3.present"] != "true" || ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
			t.Errorf("%s: node selector %v, strategy %v", ds.Name, pod.NodeSelector, ds.Spec.UpdateStrategy)
		}
		first := pod.InitContainers[0]
		if first.Command[1] != "driver-preflight" || len(first.SecurityContext.Capabilities.Add) > 0 || *first.SecurityContext.Privileged || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: %+v", ds.Name, first)
		}
		// The kubelet starts no container again without the preflight.
		if policy := pod.Containers[0].RestartPolicy; policy == nil || *policy != corev1.ContainerRestartPolicyNever {
			t.Errorf("%s: restart policy %v of the driver's container, want Never", ds.Name, policy)
		}
		if kernel == "6.1.0" && (len(pod.Containers[0].Command) != 3 || pod.Containers[0].Env[0].Name != "A") {
			t.Errorf("%s: %+v", ds.Name, pod.Containers[0])
		}
	}
	if len(kernels) != 2 || kernels["6.8.0-1007-x"] != "registry.example.com/mofed:1" {
		t.Errorf("kernels and images %v", kernels)
	}
}
