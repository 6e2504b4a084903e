// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
)

// lateEdits is a driver that says late what a container gets.
type lateEdits struct {
	edits driver.ContainerEdits
	err   error
	asked []string
}

func (l *lateEdits) ContainerEdits(_ context.Context, held []driver.Record, netns string) (driver.ContainerEdits, error) {
	for _, r := range held {
		for _, d := range r.Devices {
			l.asked = append(l.asked, fmt.Sprintf("%s of %s in %s", d.Device, r.Claim.Name, netns))
		}
	}
	return l.edits, l.err
}

// What a driver says late goes to the containers that have the claim, and never over
// what a container has.
func TestContainerEdits(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	late := &lateEdits{edits: driver.ContainerEdits{
		Env:         []string{"NCCL_IB_HCA==mlx5_0", "UCX_NET_DEVICES=mlx5_0:1"},
		CharDevices: []driver.CharDevice{{Path: "/dev/infiniband/uverbs3", Major: 231, Minor: 195, Mode: 0o666}},
		Mounts:      []driver.Mount{{Source: "/var/lib/topology.xml", Destination: "/etc/topology.xml"}},
	}}
	a.preparers[0].ContainerEditor = late
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "a"), podWith("b"))
	path := existing(t)
	marker := []string{cdi.Marker(r, 0)}
	all := &api.ContainerAdjustment{
		Env: []*api.KeyValue{{Key: "NCCL_IB_HCA", Value: "=mlx5_0"}, {Key: "UCX_NET_DEVICES", Value: "mlx5_0:1"}},
		Linux: &api.LinuxContainerAdjustment{Devices: []*api.LinuxDevice{
			{Path: "/dev/infiniband/uverbs3", Type: "c", Major: 231, Minor: 195, FileMode: api.FileMode(uint32(0o666))},
		}},
		Mounts: []*api.Mount{{Source: "/var/lib/topology.xml", Destination: "/etc/topology.xml", Type: "bind", Options: []string{"rbind", "ro", "nosuid", "nodev"}}},
	}
	for _, test := range []struct {
		name      string
		pod       string
		container *api.Container
		want      *api.ContainerAdjustment
	}{
		{"a container that has the claim", "a", &api.Container{Env: marker}, all},
		{"a user's own values win", "a", &api.Container{
			Env:    append([]string{"NCCL_IB_HCA=mlx5_9"}, marker...),
			Mounts: []*api.Mount{{Destination: "/etc/topology.xml"}},
		}, &api.ContainerAdjustment{Env: all.Env[1:], Linux: all.Linux}},
		{"another agent was first", "a", &api.Container{
			Env: append([]string{"NCCL_IB_HCA==mlx5_0", "UCX_NET_DEVICES=mlx5_0:1"}, marker...), Mounts: all.Mounts,
			Linux: &api.LinuxContainer{Devices: all.Linux.Devices},
		}, nil},
		{"another pod", "b", &api.Container{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			late.asked = nil
			adjustment, _, err := h.CreateContainer(t.Context(), podOf(test.pod, path), test.container)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, adjustment, protocmp.Transform()); diff != "" {
				t.Errorf("adjustment (-want +got):\n%s", diff)
			}
			if want := map[string]string{"a": "nic0 of a in " + path}[test.pod]; strings.Join(late.asked, ", ") != want {
				t.Errorf("asked for %q, want %q", late.asked, want)
			}
		})
	}
	// Of a pod whose containers name the claim, only those that do are told.
	h.pods = podsOf(t, podNaming("a", "a"))
	for has, want := range map[string]*api.ContainerAdjustment{"HOME=/": nil, marker[0]: all} {
		adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", path), &api.Container{Name: "beside", Env: []string{has}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, adjustment, protocmp.Transform()); diff != "" {
			t.Errorf("container with %s (-want +got):\n%s", has, diff)
		}
	}
	late.err = errors.New("RDMA device mlx5_0 has no uverbs file")
	_, _, err := h.CreateContainer(t.Context(), podOf("a", path), &api.Container{Name: "main", Env: marker})
	if err == nil || !strings.Contains(err.Error(), late.err.Error()) {
		t.Errorf("error %v, want %v: the container must not run without it", err, late.err)
	}
}

// Containers without claims, nearly all of a node, cost nothing.
func TestContainerEditsOfNoClaim(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	a.preparers[0].ContainerEditor = &lateEdits{}
	h := a.hooks()
	made := &api.Container{Name: "main", Env: []string{"HOME=/", "PATH=/bin"}, Mounts: []*api.Mount{{Destination: "/proc"}, {Destination: "/dev"}}}
	c := runtimestate.Running{Container: runtimestate.ContainerOf(made)}
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := h.containerEdits(t.Context(), c, made, nil); err != nil {
			t.Error(err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}

// A file that a driver makes for a container lies beside what the claim tells, and a
// container that names one of its own does not get it.
func TestContainerFiles(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	told, err := devicemetadata.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := a.preparers[0]
	p.ContainerEditor = &lateEdits{edits: driver.ContainerEdits{Files: []driver.File{{
		Name: "nccl-topology-0.xml", Content: []byte("<system/>"), Destination: "/run/plumbline/nccl-topology.xml", Env: "NCCL_TOPO_FILE",
	}}}}
	r := prepared(t, p, agenttest.ClaimFor("a", "nic0"))
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "a"))
	path := existing(t)
	created := func(env ...string) (*api.ContainerAdjustment, error) {
		adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", path), &api.Container{Env: append(env, cdi.Marker(r, 0))})
		return adjustment, err
	}
	if _, err := created(); err == nil {
		t.Error("a container runs without the file, which nobody could write")
	}
	p.Metadata, p.Published = told, func() []resourceapi.Device { return nil }
	adjustment, err := created()
	if err != nil {
		t.Fatal(err)
	}
	if env := adjustment.GetEnv(); len(env) != 1 || env[0].GetKey() != "NCCL_TOPO_FILE" || env[0].GetValue() != "/run/plumbline/nccl-topology.xml" {
		t.Errorf("environment %v", env)
	}
	mounts := adjustment.GetMounts()
	if len(mounts) != 1 || mounts[0].GetDestination() != "/run/plumbline/nccl-topology.xml" {
		t.Fatalf("mounts %v", mounts)
	}
	if content, err := os.ReadFile(mounts[0].GetSource()); err != nil || string(content) != "<system/>" {
		t.Errorf("the file is %q, %v", content, err)
	}
	if adjustment, err := created("NCCL_TOPO_FILE=/mine.xml"); err != nil || adjustment != nil {
		t.Errorf("a container with a file of its own gets %v, %v", adjustment, err)
	}
	if err := p.Unprepare(t.Context(), r.Claim); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mounts[0].GetSource()); !os.IsNotExist(err) {
		t.Errorf("the file outlives the claim: %v", err)
	}
}

// A disk that is slow holds up no hook, and what the hook could not wait for is there at
// the next try. Of a claim that was unprepared meanwhile nothing is left behind.
func TestLateContainerFiles(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	told, err := devicemetadata.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := a.preparers[0]
	p.Metadata, p.Published = told, func() []resourceapi.Device { return nil }
	r := prepared(t, p, agenttest.ClaimFor("a", "nic0"))
	release := make(chan struct{})
	p.ContainerEditor = editor(func() driver.ContainerEdits {
		<-release
		return driver.ContainerEdits{Files: []driver.File{{Name: "topology.xml", Content: []byte("<system/>"), Destination: "/topology.xml", Env: "NCCL_TOPO_FILE"}}}
	})
	h := a.hooks()
	share := podclaims.Share{Record: r, Devices: []int{0}}
	edits := func(ctx context.Context) error {
		_, err := h.containerEdits(ctx, runtimestate.Running{}, &api.Container{}, []podclaims.Share{share})
		return err
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := edits(soon); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "goes on") {
		t.Errorf("got %v, want the deadline's error", err)
	}
	close(release)
	mounts, err := told.Mounts(r)
	if err != nil || len(mounts) != 1 {
		t.Fatal(mounts, err)
	}
	agenttest.Eventually(t, "the file is there", func() bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(mounts[0].Source), "topology.xml"))
		return err == nil
	})
	if err := p.Unprepare(t.Context(), r.Claim); err != nil {
		t.Fatal(err)
	}
	if err := edits(t.Context()); !errors.Is(err, errSuperseded) {
		t.Errorf("got %v, want errSuperseded", err)
	}
	if left, err := told.Claims(p.Name()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// editor is a driver that takes its time.
type editor func() driver.ContainerEdits

func (e editor) ContainerEdits(context.Context, []driver.Record, string) (driver.ContainerEdits, error) {
	return e(), nil
}

// A driver is asked for a container's records in the order of the pod's claims.
func TestContainerEditsInOrder(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	late := &lateEdits{}
	p := a.preparers[0]
	p.ContainerEditor = late
	var markers []string
	for _, name := range []string{"a", "b", "c"} { // as the journal lists them
		claim := agenttest.ClaimFor(name, "nic-"+name)
		claim.Pods = []driver.PodRef{{UID: "a-pod", Name: "a"}}
		markers = append(markers, cdi.Marker(prepared(t, p, claim), 0))
	}
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "c", "a", "b"))
	path := existing(t)
	if _, _, err := h.CreateContainer(t.Context(), podOf("a", path), &api.Container{Env: markers}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("nic-c of c in %[1]s, nic-a of a in %[1]s, nic-b of b in %[1]s", path)
	if got := strings.Join(late.asked, ", "); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}
