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

// everything switches on all that makes the chart give the agent an argument.
const everything = `
drivers:
  net:
    nodeSelector: {fabric: rdma}
    allowLoss: true
    allowPhysicalFunctions: true
    allowInterfaces: ["nic*", "kind:macvlan"]
    filter: '"dra.net/rdma" in attributes && attributes["dra.net/rdma"].BoolValue'
    moveIBInterfaces: false
  cpu: {reservedCPUs: 0-1, deviceMode: individual, groupBy: socket, reservedPerNUMA: 2, exposePCIeRoots: true}
  gpu: {mode: simulated, machine: a3-ultragpu-8g}
metrics: {enabled: true, tlsSecret: plumbline-metrics}
http: {bindAddress: "127.0.0.1:9177"}
deviceTaints: NoExecute
hostReport: {deviceTaints: false}
cloud: {provider: webhook, profileProvider: webhook, webhookURL: "https://w:1", metadataEndpoint: "m:2"}
logLevel: 5
`

// TestChartSpeaksToThisAgent: an argument that the agent does not know would
// keep it from starting on every node.
func TestChartSpeaksToThisAgent(t *testing.T) {
	for _, values := range []string{"", "observe: true", `{observe: true, http: {bindAddress: ":9177"}}`, everything} {
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
			t.Fatal(err)
		}
		manifests, err := render.Chart(deploy.Namespace, parsed)
		if err != nil {
			t.Fatal(err)
		}
		container := daemonSet(t, manifests).Spec.Template.Spec.Containers[0]
		root := newCommand(surroundings{})
		if err := root.ParseFlags(container.Args); err != nil {
			t.Errorf("arguments %q: %v", container.Args, err)
		}
		for _, p := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe} {
			probe := p.Exec.Command
			if probe[0] != container.Command[0] {
				t.Errorf("the probe runs %s, the container %s", probe[0], container.Command[0])
			}
			if found, _, err := root.Find(probe[1:]); err != nil || found.Name() != "healthz" {
				t.Errorf("probe %q: finds %v, %v", probe, found, err)
			}
		}
	}
}

// daemonSet is the agent's.
func daemonSet(t *testing.T, manifests []byte) appsv1.DaemonSet {
	t.Helper()
	var found appsv1.DaemonSet
	for _, document := range bytes.Split(manifests, []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: DaemonSet\n")) {
			continue
		}
		if err := yaml.UnmarshalStrict(document, &found); err != nil {
			t.Fatal(err)
		}
	}
	if found.Name == "" {
		t.Fatal("the chart renders no DaemonSet")
	}
	return found
}
