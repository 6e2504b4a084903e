// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
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
    ncclTopologyFile: /opt/microsoft/ndv5/topo.xml
    dataDirectAsRoot: true
  cpu: {reservedCPUs: 0-1, deviceMode: individual, groupBy: socket, reservedPerNUMA: 2, exposePCIeRoots: true}
  gpu: {mode: simulated, machine: a3-ultragpu-8g}
metrics: {enabled: true, tlsSecret: plumbline-metrics}
http: {bindAddress: "127.0.0.1:9177"}
deviceTaints: NoExecute
deviceMetadata: {enabled: false}
hostReport: {deviceTaints: false}
hostSetup: {enabled: true}
nicDriver: {images: [{kernel: 6.1.0, image: x}]}
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
		daemonSets := daemonSetsOf(t, manifests)
		if c, ok := daemonSets["plumbline-host-setup"]; ok {
			command, rest, err := newCommand(surroundings{}).Find(append(c.Command[1:], c.Args...))
			if err != nil || command.Name() != "host-setup" || command.ParseFlags(rest) != nil {
				t.Errorf("%q %q: finds %v, %v", c.Command, c.Args, command, err)
			}
			delete(daemonSets, "plumbline-host-setup")
		}
		for name, c := range daemonSets {
			if !strings.HasPrefix(name, "plumbline-nic-driver-") {
				continue
			}
			command, rest, err := newCommand(surroundings{}).Find(append(c.Command[1:], c.Args...))
			if err != nil || command.Name() != "driver-preflight" || command.ParseFlags(rest) != nil {
				t.Errorf("%q %q: finds %v, %v", c.Command, c.Args, command, err)
			}
			delete(daemonSets, name)
		}
		if len(daemonSets) != 1 {
			t.Fatalf("%d DaemonSets of agents, want 1", len(daemonSets))
		}
		container := slices.Collect(maps.Values(daemonSets))[0]
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

// daemonSetsOf are the first containers to run of DaemonSets by name.
func daemonSetsOf(t *testing.T, manifests []byte) map[string]corev1.Container {
	t.Helper()
	all := map[string]corev1.Container{}
	for _, document := range bytes.Split(manifests, []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: DaemonSet\n")) {
			continue
		}
		var found appsv1.DaemonSet
		if err := yaml.UnmarshalStrict(document, &found); err != nil {
			t.Fatal(err)
		}
		pod := found.Spec.Template.Spec
		all[found.Name] = append(pod.InitContainers, pod.Containers...)[0]
	}
	return all
}
