// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/lab/node"
)

// Every name that stands for something is filled in, and the server listens where the
// kubelet sends pods to.
func TestDNSManifest(t *testing.T) {
	text := string(dnsManifest("10.0.2.2", "6443"))
	if left := regexp.MustCompile(`[A-Z]+_[A-Z]+\b`).FindAllString(strings.ReplaceAll(text, "KUBERNETES_SERVICE", ""), -1); len(left) > 0 {
		t.Errorf("left open: %q", left)
	}
	for _, want := range []string{"bind " + node.GuestIP + "\n", "kubernetes " + node.ClusterDomain + " {"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	var server appsv1.Deployment
	for object := range strings.SplitSeq(text, "---\n") {
		if strings.Contains(object, "kind: Deployment") {
			if err := yaml.UnmarshalStrict([]byte(object), &server); err != nil {
				t.Fatal(err)
			}
		}
	}
	pod := server.Spec.Template.Spec
	if !pod.HostNetwork || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	env := pod.Containers[0].Env
	if len(env) != 2 || env[0].Value != "10.0.2.2" || env[1].Value != "6443" {
		t.Errorf("environment %v", env)
	}
}
