// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/plugins/default-validator/builtin"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/agent/agenttest"
)

// The container runtime's own check, with the annotation that the documentation
// has people write: without an agent it refuses that pod's containers, and no
// others.
func TestRequiredPlugins(t *testing.T) {
	quietNRI()
	var documented corev1.Pod
	for _, b := range docstest.Blocks(t, "failures.md") {
		if b.Kind == "manifest" && b.Name == "required-plugins" {
			if err := yaml.Unmarshal([]byte(b.Text), &documented); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(documented.Annotations) != 1 {
		t.Fatalf("docs/failures.md: annotations %v, want the one of the check", documented.Annotations)
	}
	socket := filepath.Join(t.TempDir(), "nri.sock")
	runtime := &containerRuntime{}
	startRuntime(t, socket, runtime, adaptation.WithBuiltinPlugins(builtin.GetDefaultValidator(&builtin.DefaultValidatorConfig{Enable: true})))
	defer runtime.die()
	create := func(name string, annotations map[string]string) error {
		pod := podOf(name, "/run/netns/"+name)
		pod.Annotations = annotations
		_, err := runtime.CreateContainer(t.Context(), &api.CreateContainerRequest{
			Pod: pod, Container: &api.Container{Id: name, PodSandboxId: pod.Id, Name: "main"},
		})
		return err
	}
	if err := create("plain", nil); err != nil {
		t.Errorf("a pod that does not ask for the check: %v", err)
	}
	if err := create("checked", documented.Annotations); err == nil || !strings.Contains(err.Error(), `required plugin "plumbline" not present`) {
		t.Errorf("a pod that asks, without an agent: got %v, want a refusal", err)
	}
	a, stop := startAgent(t, socket, t.TempDir(), &agenttest.FakeDriver{DriverName: "dra.net"})
	defer stop()
	agenttest.Eventually(t, "the agent is connected", func() bool { return a.Ready() == nil })
	if err := create("checked", documented.Annotations); err != nil {
		t.Errorf("a pod that asks, with an agent: %v", err)
	}
}

// The container runtime asks nobody where an agent is gone, whatever failure policy
// the agent came with: what stands before its pods then is the guard
// (docs/decisions/2026-11-22-claims-that-no-container-names.md).
func TestNobodyIsAskedWithoutAnAgent(t *testing.T) {
	quietNRI()
	socket := filepath.Join(t.TempDir(), "nri.sock")
	runtime := &containerRuntime{}
	startRuntime(t, socket, runtime)
	defer runtime.die()
	nic := &agenttest.FakeDriver{DriverName: "dra.net", Refuse: errors.New("refused")}
	a, stop := startAgent(t, socket, t.TempDir(), &agenttest.FakeDriver{DriverName: "dra.net"})
	agenttest.Eventually(t, "the agent is connected", func() bool { return a.Ready() == nil })
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	a.preparers[0].Attacher = nic
	run := func() error {
		return runtime.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: podOf("a", "/run/netns/a")})
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("with an agent that refuses: %v", err)
	}
	stop()
	agenttest.Eventually(t, "the pod starts", func() bool { return run() == nil })
}
