// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
)

// TestChartSpeaksToThisProgram: an argument that it does not know would keep it
// from starting.
func TestChartSpeaksToThisProgram(t *testing.T) {
	for _, values := range []string{"", "observe: true", "{explainer: {featureGates: DRAListTypeAttributes=true}, metrics: {enabled: true, tlsSecret: s}}"} {
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
			t.Fatal(err)
		}
		manifests, err := render.Chart(deploy.Namespace, parsed)
		if err != nil {
			t.Fatal(err)
		}
		var found appsv1.Deployment
		for _, document := range bytes.Split(manifests, []byte("\n---\n")) {
			if bytes.Contains(document, []byte("\nkind: Deployment\n")) {
				if err := yaml.UnmarshalStrict(document, &found); err != nil {
					t.Fatal(err)
				}
			}
		}
		if found.Name != deploy.OperatorServiceAccount {
			t.Fatalf("%q: Deployment %q", values, found.Name)
		}
		container := found.Spec.Template.Spec.Containers[0]
		root := newCommand()
		if root.Name() != container.Command[0] {
			t.Errorf("the container runs %s, this is %s", container.Command[0], root.Name())
		}
		if err := root.ParseFlags(container.Args); err != nil {
			t.Errorf("arguments %q: %v", container.Args, err)
		}
		for _, p := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe} {
			probe := p.Exec.Command
			if found, _, err := root.Find(probe[1:]); probe[0] != container.Command[0] || err != nil || found.Name() != "healthz" {
				t.Errorf("probe %q: finds %v, %v", probe, found, err)
			}
		}
	}
}
