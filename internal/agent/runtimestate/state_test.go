// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimestate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
)

// The runtime lists sandboxes that have stopped until the kubelet removes them, a
// minute later: their pods do not run.
func TestRuns(t *testing.T) {
	netns := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(netns, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pod := func(name, netns string) *api.PodSandbox {
		p := &api.PodSandbox{Id: name + "-sandbox", Uid: name + "-pod", Namespace: "default", Name: name, Pid: 1, Linux: &api.LinuxPodSandbox{}}
		if netns != "" {
			p.Linux.Namespaces = []*api.LinuxNamespace{{Type: "network", Path: netns}}
		}
		return p
	}
	listed := pod("listed", "") // as containerd lists one that has stopped
	listed.Pid = 0
	s := &State{}
	s.Reset([]*api.PodSandbox{pod("running", netns), pod("stopped", netns+"-gone"), pod("on-host", ""), listed}, nil)
	for pod, want := range map[types.UID]bool{
		"running-pod": true, "stopped-pod": false, "on-host-pod": true, "listed-pod": false, "other-pod": false,
	} {
		if s.Runs(pod) != want {
			t.Errorf("%s: runs %t, want %t", pod, !want, want)
		}
	}
	// A sandbox that is being run has not stopped, whatever the runtime knows of it.
	s.AddSandbox(listed.GetId(), SandboxOf(listed))
	if !s.Runs("listed-pod") {
		t.Error("the sandbox of a hook does not run")
	}
}
