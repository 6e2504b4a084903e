// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/deploy"
)

// TestOperatorHoldsNothing: no capability, nothing of the host's, no user of the
// host's, and no right to write but those that are listed; beside agents that serve and
// beside those that do not.
func TestOperatorHoldsNothing(t *testing.T) {
	for name, manifests := range map[string][]byte{"install.yaml": deploy.Install(), "observe.yaml": deploy.Observe()} {
		objects := decode(t, manifests)
		deployment := only[*appsv1.Deployment](t, objects)
		if *deployment.Spec.Replicas != 2 {
			t.Errorf("%s: %d operators: one that dies with its node leaves none", name, *deployment.Spec.Replicas)
		}
		pod := deployment.Spec.Template.Spec
		if pod.HostPID || pod.HostIPC || pod.HostNetwork {
			t.Errorf("%s: the operator shares the host's processes, IPC or network", name)
		}
		yes, nobody := true, int64(65534)
		if diff := cmp.Diff(&corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &nobody, RunAsGroup: &nobody, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}, pod.SecurityContext); diff != "" {
			t.Errorf("%s: security context of the pod (-want +got):\n%s", name, diff)
		}
		no := false
		if diff := cmp.Diff(&corev1.SecurityContext{
			Privileged: &no, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, pod.Containers[0].SecurityContext); diff != "" {
			t.Errorf("%s: security context (-want +got):\n%s", name, diff)
		}
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s: the host's %s is mounted", name, v.HostPath.Path)
			}
		}
		var writes []string
		for _, rule := range roleNamed(t, objects, deploy.OperatorServiceAccount).Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					writes = append(writes, verb+" "+strings.Join(rule.Resources, ","))
				}
			}
		}
		want := []string{"create events", "patch events"}
		if name == "install.yaml" {
			want = append(want, "patch nodes,nodes/status", "create installations", "update installations/status",
				"update networkaddresspools", "update networkaddresspools/status",
				"create networkaddressblocks", "update networkaddressblocks", "delete networkaddressblocks")
		}
		if diff := cmp.Diff(want, writes); diff != "" {
			t.Errorf("%s: what the operator may write (-want +got):\n%s", name, diff)
		}
	}
}

// TestOperatorIsAsked: what values do to the Deployment.
func TestOperatorIsAsked(t *testing.T) {
	for _, tc := range []struct {
		values string
		args   []string
	}{
		{"", []string{"--namespace=plumbline-system", "--socket=/run/plumbline/operator.sock", "--explain=true", "--hosts=true", "--node-labels=true", "--v=2"}},
		{"explainer: {featureGates: DRAListTypeAttributes=true}", []string{"--feature-gates=DRAListTypeAttributes=true"}},
		{"metrics: {enabled: true, tlsSecret: x}", []string{"--metrics-address=:9178", "--metrics-cert-dir=/etc/plumbline/metrics"}},
		{"observe: true", []string{"--explain=true", "--hosts=false"}},
		{"explainer: {enabled: false}", []string{"--explain=false", "--hosts=true"}},
		{"nodeLabels: {enabled: false}", []string{"--node-labels=false"}},
	} {
		pod := only[*appsv1.Deployment](t, rendered(t, tc.values)).Spec.Template.Spec
		for _, arg := range tc.args {
			if !slices.Contains(pod.Containers[0].Args, arg) {
				t.Errorf("%q: no argument %s in %q", tc.values, arg, pod.Containers[0].Args)
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%q: no volume for mount %s", tc.values, m.Name)
			}
		}
	}
	for _, off := range []string{"operator: {enabled: false}", "{observe: true, explainer: {enabled: false}}"} {
		for _, object := range rendered(t, off) {
			if deployment, ok := object.(*appsv1.Deployment); ok {
				t.Errorf("%s, and there is Deployment %s", off, deployment.Name)
			}
		}
	}
	if _, err := chartOf(t, "explainer: {featureGates: DRAListTypeAttributes}"); err == nil || !strings.Contains(err.Error(), "featureGates") {
		t.Errorf("feature gates without a value: %v", err)
	}
}
