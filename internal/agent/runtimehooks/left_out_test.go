// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

func TestReadOnlyOver(t *testing.T) {
	const file = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/a/r/dra.net-metadata.json"
	for _, test := range []struct{ name, mounts, want string }{
		{"nothing", "", ""},
		{"elsewhere", "/data ro, /run2 ro, /var/run/secrets/kubernetes.io/serviceaccount ro", ""},
		{"read-only at /run", "/run rbind,rprivate,ro", "/run"},
		{"read-only at /var/run", "/var/run rbind,rro", "/var/run"},
		{"to write", "/run rbind,rw", ""},
		{"without a word", "/run bind", ""},
		{"the last option counts", "/run ro,rw", ""},
		{"a slash too many", "/run/ ro", "/run/"},
		{"to write below a read-only one", "/run ro, /run/kubernetes.io rw", ""},
		{"read-only below one to write", "/run rw, /var/run/kubernetes.io ro", "/var/run/kubernetes.io"},
		{"in another order", "/run/kubernetes.io rw, /run ro", ""},
		{"two at one place", "/run ro, /var/run rw", ""},
		{"what /var holds is not known", "/var ro", ""},
		{"the file itself", file + " ro", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if over := readOnlyOver(mountsOf(test.mounts), file); over != nil {
				got = over.GetDestination()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// mountsOf reads "DESTINATION OPTION,OPTION" of each.
func mountsOf(text string) []*api.Mount {
	var mounts []*api.Mount
	for item := range strings.SplitSeq(text, ", ") {
		if at, options, ok := strings.Cut(item, " "); ok {
			mounts = append(mounts, &api.Mount{Source: "/somewhere", Destination: at, Options: strings.Split(options, ",")})
		}
	}
	return mounts
}

// telling has the agent's NIC driver tell containers of their devices, and its events go
// to the server that it returns.
func telling(t *testing.T, a *agent) (*devicemetadata.Dir, *hooks, func() []string) {
	t.Helper()
	told, err := devicemetadata.Open(filepath.Join(t.TempDir(), "metadata"))
	if err != nil {
		t.Fatal(err)
	}
	a.preparers[0].Metadata, a.preparers[0].Published = told, func() []resourceapi.Device { return nil }
	server := fake.NewClientset()
	h := a.hooks()
	h.events = kube.NewEvents(t.Context(), "node")
	go h.events.Run(t.Context(), server)
	return told, h, func() []string {
		list, err := server.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, e := range list.Items {
			said = append(said, fmt.Sprintf("%s %s/%s x%d: %s", e.Reason, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Count, e.Message))
		}
		slices.Sort(said)
		return said
	}
}

const underRun = "container main starts without its files of device metadata: its mount at /run is read-only, and no mount point can be made there: " +
	"mount what it needs below /run, or let the mount be written"

// A container with a read-only volume over the place of its metadata starts without it,
// whoever names the claim, and the pod's owner reads why, once.
func TestMetadataUnderReadOnlyMounts(t *testing.T) {
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprintf("the container names the claim: %t", named), func(t *testing.T) {
			a, _ := connected(t, "/nowhere")
			told, h, events := telling(t, a)
			r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
			h.pods = podsOf(t, podWith("a", "a"))
			path := existing(t)
			mounts, err := told.Mounts(r)
			if err != nil || len(mounts) != 1 {
				t.Fatal(mounts, err)
			}
			destination := mounts[0].Destination
			removed := func(volumes string) bool {
				t.Helper()
				made := &api.Container{Name: "main", Mounts: mountsOf(volumes)}
				if named { // the kubelet and CDI were there before
					made.Env = []string{cdi.Marker(r, 0)}
					made.Mounts = append(made.Mounts, &api.Mount{Source: mounts[0].Source, Destination: destination, Options: []string{"ro", "bind"}})
				}
				adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", path), made)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range adjustment.GetMounts() {
					if at, marked := m.IsMarkedForRemoval(); !marked || at != destination {
						t.Errorf("mount %v", m)
					}
				}
				return len(adjustment.GetMounts()) == 1
			}
			if removed("/data ro, /var/run/secrets/kubernetes.io/serviceaccount ro") {
				t.Error("removed although nothing is in its way")
			}
			for range 3 { // each restart of the container comes here
				if !removed("/run ro") {
					t.Error("not removed, and the container cannot start")
				}
			}
			want := []string{"LeftOut default/a x1: " + underRun}
			agenttest.Eventually(t, "the event", func() bool { return slices.Equal(events(), want) })
			if _, err := told.Mounts(r); err != nil {
				t.Errorf("other containers cannot read it any more: %v", err)
			}
		})
	}
}

// Each container of the node comes here, and most have nothing to look for.
func TestNoMetadataToRemove(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	_, h, _ := telling(t, a)
	made := &api.Container{Name: "main", Mounts: mountsOf("/proc rw, /dev rw, /run ro, /var/run/secrets/kubernetes.io/serviceaccount ro")}
	c := runtimestate.Running{Container: runtimestate.ContainerOf(made)}
	allocations := testing.AllocsPerRun(100, func() {
		if remove, notes, err := h.metadataToRemove(t.Context(), c, made, nil, nil); len(remove)+len(notes) > 0 || err != nil {
			t.Error(remove, notes, err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}

// What an older agent's CDI file still mounts goes with the switch, and nobody is told.
func TestMetadataSwitchedOff(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	told, h, events := telling(t, a)
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	a.preparers[0].WithoutMetadata = true
	h.pods = podsOf(t, podWith("a", "a"))
	mounts, err := told.Mounts(r)
	if err != nil || len(mounts) != 1 {
		t.Fatal(mounts, err)
	}
	made := &api.Container{Name: "main", Env: []string{cdi.Marker(r, 0)}, Mounts: append(mountsOf("/run ro"),
		&api.Mount{Source: mounts[0].Source, Destination: mounts[0].Destination, Options: []string{"ro", "bind"}})}
	adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", existing(t)), made)
	if err != nil {
		t.Fatal(err)
	}
	if m := adjustment.GetMounts(); len(m) != 1 || m[0].GetDestination() != api.MarkForRemoval(mounts[0].Destination) {
		t.Errorf("mounts %v", m)
	}
	if said := events(); len(said) > 0 {
		t.Errorf("events %q", said)
	}
}

// The runtime's own library of NRI hands the removal on, also where two agents ask for it
// while one takes over.
func TestRemovedMountReachesTheRuntime(t *testing.T) {
	quietNRI()
	socket := filepath.Join(t.TempDir(), "nri.sock")
	a, _ := connected(t, socket)
	told, err := devicemetadata.Open(filepath.Join(t.TempDir(), "metadata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.preparers {
		p.Metadata, p.Published = told, func() []resourceapi.Device { return nil }
	}
	runtime := &containerRuntime{}
	startRuntime(t, socket, runtime)
	defer runtime.die()
	agenttest.Eventually(t, "the synchronisation", func() bool { return a.Ready() == nil })
	r, err := a.preparers[0].Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := told.Mounts(r)
	if err != nil || len(mounts) != 1 {
		t.Fatal(mounts, err)
	}
	pod := podOf("a", existing(t))
	answer, err := runtime.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: &api.Container{
		Id: "c", PodSandboxId: pod.Id, Name: "main", CDIDevices: []*api.CDIDevice{{Name: cdi.ID(r, 0)}},
		Mounts: append(mountsOf("/run ro"), &api.Mount{Source: mounts[0].Source, Destination: mounts[0].Destination, Options: []string{"ro"}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, m := range answer.GetAdjust().GetMounts() {
		left = append(left, m.GetDestination())
	}
	if want := []string{api.MarkForRemoval(mounts[0].Destination)}; !slices.Equal(left, want) {
		t.Errorf("the runtime is told %q, want %q", left, want)
	}
}

// A note of a driver is an event of the pod, once, and not where the container has what it
// is of.
func TestNotesOfDrivers(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	_, h, events := telling(t, a)
	late := &lateEdits{edits: driver.ContainerEdits{
		Notes: []driver.Note{{Env: "NCCL_IB_GID_INDEX", Text: "NCCL_IB_GID_INDEX is left out: no index"}},
		Files: []driver.File{{Name: "topology.xml", Content: []byte("<system/>"), Destination: "/run/plumbline/topology.xml", Env: "NCCL_TOPO_FILE"}},
	}}
	a.preparers[0].ContainerEditor = late
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	h.pods = podsOf(t, podWith("a", "a"))
	path := existing(t)
	create := func(name, volumes string, env ...string) *api.ContainerAdjustment {
		t.Helper()
		adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", path), &api.Container{
			Name: name, Env: append(env, cdi.Marker(r, 0)), Mounts: mountsOf(volumes),
		})
		if err != nil {
			t.Fatal(err)
		}
		return adjustment
	}
	create("own", "", "NCCL_IB_GID_INDEX=3")
	if said := events(); len(said) > 0 {
		t.Errorf("events %q of a container that has the variable", said)
	}
	create("one", "")
	create("two", "")
	if adjustment := create("main", "/run ro"); len(adjustment.GetEnv())+len(adjustment.GetMounts()) > 0 {
		t.Errorf("a file below a read-only mount: %v", adjustment)
	}
	want := []string{
		"LeftOut default/a x1: NCCL_IB_GID_INDEX is left out: no index",
		"LeftOut default/a x1: " + strings.Replace(underRun, "files of device metadata", "file of NCCL_TOPO_FILE", 1),
	}
	agenttest.Eventually(t, "the events", func() bool { return slices.Equal(events(), want) })
	if err := h.RemovePodSandbox(t.Context(), podOf("a", path)); err != nil {
		t.Fatal(err)
	}
	if len(h.said.said) > 0 {
		t.Errorf("remembered of a pod that is gone: %v", h.said.said)
	}
	// A container that is refused has the refusal for its event.
	late.err = errors.New("no verbs")
	if _, _, err := h.CreateContainer(t.Context(), podOf("a", path), &api.Container{Name: "one", Env: []string{cdi.Marker(r, 0)}}); err == nil {
		t.Error("not refused")
	}
	if len(h.said.said) > 0 {
		t.Errorf("said %v of a container that was refused", h.said.said)
	}
}
