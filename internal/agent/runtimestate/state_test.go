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

// TestSandboxWithoutSpec: containerd was killed while it made a sandbox, and lists it
// without any namespace. It has one, which its process shows; one that has stopped, or
// is in the host's network, has none.
func TestSandboxWithoutSpec(t *testing.T) {
	lost := func(id string, pid uint32) *api.PodSandbox {
		return &api.PodSandbox{Id: id, Uid: id, Pid: pid, Linux: &api.LinuxPodSandbox{}}
	}
	onHost := lost("on-host", 8)
	onHost.Linux.Namespaces = []*api.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}}
	s := &State{FindNetns: func(pid uint32) string { return map[uint32]string{7: "/run/netns/a", 8: "/run/netns/wrong"}[pid] }}
	s.Reset([]*api.PodSandbox{lost("a", 7), lost("host", 9), lost("stopped", 0), onHost}, nil)
	for id, want := range map[string]Sandbox{
		"a": {Netns: "/run/netns/a"}, "host": {}, "stopped": {Stopped: true}, "on-host": {},
	} {
		if got := s.sandboxes[id]; got.Netns != want.Netns || got.Stopped != want.Stopped {
			t.Errorf("%s: namespace %q, stopped %t; want %q, %t", id, got.Netns, got.Stopped, want.Netns, want.Stopped)
		}
	}
	// Its end has no process to ask.
	if got := s.SandboxOf(lost("a", 0)).Netns; got != "/run/netns/a" {
		t.Errorf("at its end the namespace is %q", got)
	}
	again := &State{}
	again.Reset([]*api.PodSandbox{lost("a", 7)}, nil)
	if got := again.SandboxOf(lost("a", 7)).Netns; got != "" {
		t.Errorf("nobody can find it, and it is %q", got)
	}
}
