// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

func TestUnmirrored(t *testing.T) {
	asks := func(init bool, cpu string, claims ...string) kube.Container {
		return kube.Container{Init: init, Claims: claims, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	records := []driver.Record{recordOf("dra.cpu", "a", "trainer-uid", "cpudevnuma000"), recordOf("dra.cpu", "b", "trainer-uid", "cpudevnuma000")}
	for _, test := range []struct {
		name       string
		containers []kube.Container
		want       string
	}{
		{"one container for both", []kube.Container{asks(false, "4", "a", "b")}, ""},
		{"a container each", []kube.Container{asks(false, "3", "a"), asks(false, "1", "b"), asks(false, "2")}, ""},
		{"at pod level", []kube.Container{asks(false, "3"), asks(false, "1")}, ""},
		{"in turn", []kube.Container{asks(true, "4", "a", "b"), asks(false, "2500m", "a"), asks(false, "1500m", "b")}, ""},
		{"the init container most", []kube.Container{asks(true, "4", "a", "b"), asks(false, "1", "a")}, ""},
		{
			"nothing", []kube.Container{{Claims: []string{"a", "b"}}, asks(false, "4")},
			"the claims of pod default/trainer give it 4 CPUs, and its containers that name them request 0: the node looks emptier than it is; want resources.requests.cpu: 4",
		},
		{"too little", []kube.Container{asks(false, "500m", "a", "b")}, "request 500m: the node looks emptier"},
		{"too much", []kube.Container{asks(false, "8", "a", "b")}, "request 8, of which they can use no more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := &kube.Pod{Namespace: "default", Name: "trainer", Containers: test.containers}
			got := unmirrored(facts, records, driver.Pin{CPUs: cpuset.New(0, 1, 2, 3)})
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A runtime that restarted tells nobody what went with it.
func TestSynchronizeForgetsWhatWent(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	h := a.hooks()
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "cgroup.controllers"), []byte("cpuset cpu"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"stays", "went"} {
		group := filepath.Join(tree, id)
		if err := os.Mkdir(group, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems", "cgroup.procs"} {
			if err := os.WriteFile(filepath.Join(group, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h.warned.first(types.UID(id + "-pod"))
	}
	var err error
	if h.placer, err = pinning.Open(tree); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.placer.Close() })
	assignments := []pinning.Container{{ID: "stays", Group: "/stays"}, {ID: "went", Group: "/went"}}
	if out := h.placer.Place(assignments, cpuset.New(0, 1), true); out.Writes != 2 {
		t.Fatalf("%+v", out)
	}
	running := &api.Container{Id: "stays", PodSandboxId: "stays-sandbox", Linux: &api.LinuxContainer{CgroupsPath: "/stays"}}
	if _, err := h.Synchronize(t.Context(), []*api.PodSandbox{podOf("stays", "")}, []*api.Container{running}); err != nil {
		t.Fatal(err)
	}
	if h.warned.first("stays-pod") || !h.warned.first("went-pod") {
		t.Error("want the pod that went forgotten, and no other")
	}
	if !a.Runs("stays-pod") || a.Runs("went-pod") {
		t.Error("want the pod that stays taken for running, and no other")
	}
	_, stays := h.placer.Placed("stays")
	if _, went := h.placer.Placed("went"); went || !stays {
		t.Errorf("the container that stays is known: %t; that went: %t", stays, went)
	}
}

func TestPodsAreToldOnce(t *testing.T) {
	var w warned
	if !w.first("a") || w.first("a") || !w.first("b") {
		t.Error("want a and b told once each")
	}
	w.drop("a")
	if !w.first("a") {
		t.Error("a pod that has gone is remembered")
	}
}
