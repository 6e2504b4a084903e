// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/api/metadata"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// A folder of the host that a NIC's class gives is mounted read-only in the containers that
// have the NIC, unless they have something of their own there; then the pod's owner is told,
// once.
func TestHostMounts(t *testing.T) {
	const (
		gib     = "/home/kubernetes/bin/gib"
		without = "container main starts without its mount of the host's " + gib + " at /usr/local/gib: "
		own     = ": leave that out to have what its NIC's class gives"
	)
	given := &api.Mount{Source: gib, Destination: "/usr/local/gib", Type: "bind", Options: []string{"rbind", "ro", "nosuid", "nodev"}}
	variable := &api.KeyValue{Key: "LD_LIBRARY_PATH", Value: "/usr/local/gib/lib64"}
	for _, test := range []struct {
		name   string
		env    []string
		mounts []*api.Mount
		want   *api.ContainerAdjustment
		told   string
	}{
		{"nothing of its own", nil, mountsOf("/proc rw, /dev rw, /data ro"), &api.ContainerAdjustment{Mounts: []*api.Mount{given}, Env: []*api.KeyValue{variable}}, ""},
		{"the variable", []string{"LD_LIBRARY_PATH=/mine"}, nil, &api.ContainerAdjustment{Mounts: []*api.Mount{given}}, ""},
		{"another mount at the path", nil, mountsOf("/usr/local/gib rw"), &api.ContainerAdjustment{Env: []*api.KeyValue{variable}},
			without + "it has a mount of its own at /usr/local/gib" + own},
		{"a mount below the path", nil, mountsOf("/usr/local/gib/configs ro"), &api.ContainerAdjustment{Env: []*api.KeyValue{variable}},
			without + "it has a mount of its own at /usr/local/gib/configs" + own},
		{"the same folder, by the pod or another agent", []string{"LD_LIBRARY_PATH=/usr/local/gib/lib64"}, []*api.Mount{{Source: gib, Destination: "/usr/local/gib"}}, nil, ""},
		{"the same folder, and one below it", []string{"LD_LIBRARY_PATH="}, append(mountsOf("/usr/local/gib/configs ro"), &api.Mount{Source: gib, Destination: "/usr/local/gib"}), nil, ""},
		{"the same folder, and another over it", []string{"LD_LIBRARY_PATH="}, append([]*api.Mount{{Source: gib, Destination: "/usr/local/gib"}}, mountsOf("/usr/local/gib/ rw")...), nil,
			without + "it has a mount of its own at /usr/local/gib/" + own},
		{"a volume above it, to write", nil, mountsOf("/usr/local rw"), &api.ContainerAdjustment{Mounts: []*api.Mount{given}, Env: []*api.KeyValue{variable}}, ""},
		{"a volume above it, read-only", nil, mountsOf("/usr/local ro"), &api.ContainerAdjustment{Env: []*api.KeyValue{variable}},
			without + "its mount at /usr/local is read-only, and no mount point can be made there: mount what it needs below /usr/local, or let the mount be written"},
		{"a name that begins alike", nil, mountsOf("/usr/local/gib2 ro, /usr/local/gi ro"), &api.ContainerAdjustment{Mounts: []*api.Mount{given}, Env: []*api.KeyValue{variable}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _ := connected(t, "/nowhere")
			_, h, events := telling(t, a)
			a.preparers[0].ContainerEditor = &lateEdits{edits: driver.ContainerEdits{
				Mounts: []driver.Mount{{Source: gib, Destination: "/usr/local/gib"}}, Env: []string{"LD_LIBRARY_PATH=/usr/local/gib/lib64"},
			}}
			r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
			h.pods = podsOf(t, podWith("a", "a"))
			netns := existing(t)
			for range 2 { // each restart of the container comes here
				made := &api.Container{Name: "main", Env: append([]string{cdi.Marker(r, 0)}, test.env...), Mounts: test.mounts}
				adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", netns), made)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, adjustment, protocmp.Transform()); diff != "" {
					t.Errorf("adjustment (-want +got):\n%s", diff)
				}
			}
			said := slices.Collect(maps.Keys(h.said.said["a-pod"]))
			if test.told == "" {
				if len(said) > 0 {
					t.Errorf("the pod's owner is told %q, and nothing is left out", said)
				}
				return
			}
			want := []string{"LeftOut default/a x1: " + test.told}
			agenttest.Eventually(t, "the event", func() bool { return slices.Equal(events(), want) })
		})
	}
}

// A container whose NICs do not agree on what it gets does not run.
func TestHostMountsThatDisagree(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	a.preparers[0].ContainerEditor = &lateEdits{err: errors.New(`claim default/b, device nic1: container.mounts: /a: "/2", and claim default/a, device nic0 says "/1"`)}
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "a"))
	adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", existing(t)), &api.Container{Name: "main", Env: []string{cdi.Marker(r, 0)}})
	if err == nil || adjustment != nil || !strings.Contains(err.Error(), "claim default/a, device nic0") {
		t.Errorf("got %v, %v; want a refusal with both claims", adjustment, err)
	}
}

// What marks containers, and where they read of their devices, no class can set or hide.
func TestMarksAreReserved(t *testing.T) {
	marker, _, _ := strings.Cut(cdi.Marker(agenttest.RecordOf("dra.net", "a", "b", "nic0"), 0), "=")
	marker = strings.ReplaceAll(marker, "-", "_") // as a shell could have it
	at, from := path.Clean(inRun(metadata.ContainerDir)), "/opt"
	c := &v1alpha1.NetworkConfig{Container: &v1alpha1.ContainerConfig{
		Env:    map[string]string{marker: "dra.net/nic1", "DRA_CPUSET_a": "0-7"},
		Mounts: []v1alpha1.MountConfig{{HostPath: &from, ContainerPath: &at}},
	}}
	var wrong []string
	for _, e := range c.Mistakes() {
		wrong = append(wrong, e.Field)
	}
	if want := []string{"container.mounts[0].containerPath", "container.env[DRA_CPUSET_a]", "container.env[" + marker + "]"}; !slices.Equal(wrong, want) {
		t.Errorf("mistakes at %q, want %q", wrong, want)
	}
}

// From the API server's claim to a script: a folder that stands in for Google's gIB comes by
// the class of a claimed NIC, and a process that has the mount and the variable as the
// container runtime is asked for them sources the folder's script, and cannot write there.
func TestStandInForGIB(t *testing.T) {
	host, pod, fabric := hosttest.NewNamespace(t), hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, host, "nic0", fabric, "port0")
	n := crashNode{dir: t.TempDir(), host: host.Path(), pod: pod.Path()}
	folder := filepath.Join(t.TempDir(), "gib")
	if err := os.MkdirAll(filepath.Join(folder, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "scripts/set_nccl_env.sh"), []byte("export NCCL_NET=gIB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, p := n.agent(t, nil)
	claim := driver.FromAPI(claimOfClass(fmt.Sprintf(
		`{"container": {"mounts": [{"hostPath": %q, "containerPath": "/usr/local/gib"}], "env": {"LD_LIBRARY_PATH": "/usr/local/gib/lib64"}}}`, folder)), "dra.net", "node")
	if _, err := p.Prepare(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if err := h.RunPodSandbox(t.Context(), n.sandbox()); err != nil {
		t.Fatal(err)
	}
	adjustment, _, err := h.CreateContainer(t.Context(), n.sandbox(), &api.Container{Id: "main", Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	mounts := adjustment.GetMounts()
	if len(mounts) != 1 || mounts[0].GetDestination() != "/usr/local/gib" || !slices.Equal(mounts[0].GetOptions(), []string{"rbind", "ro", "nosuid", "nodev"}) {
		t.Fatalf("mounts %v", mounts)
	}
	at := t.TempDir() // stands in for the container's /usr/local/gib
	script := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-ec", `
		mount --rbind "$1" "$2"
		mount -o remount,bind,ro,nosuid,nodev "$2"
		. "$2/scripts/set_nccl_env.sh"
		echo "$NCCL_NET $LD_LIBRARY_PATH"
		if touch "$2/written" 2>/dev/null; then echo written; fi`, "sh", mounts[0].GetSource(), at)
	for _, e := range adjustment.GetEnv() {
		script.Env = append(script.Env, e.GetKey()+"="+e.GetValue())
	}
	script.Env = append(script.Env, "PATH="+os.Getenv("PATH"))
	if out, err := script.CombinedOutput(); err != nil || string(out) != "gIB /usr/local/gib/lib64\n" {
		t.Errorf("the script says %q, %v", out, err)
	}
	if err := h.StopPodSandbox(t.Context(), n.sandbox()); err != nil {
		t.Fatal(err)
	}
	if err := p.Unprepare(t.Context(), claim.ClaimRef); err != nil {
		t.Fatal(err)
	}
}

// claimOfClass is an allocated claim of nic0 whose class has the parameters, held by pod a.
func claimOfClass(parameters string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "a-uid", Namespace: "default", Name: "a"}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a-pod"}}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "nic", Driver: "dra.net", Pool: "node", Device: "nic0"}},
		Config: []resourceapi.DeviceAllocationConfiguration{{
			Source: resourceapi.AllocationConfigSourceClass, Requests: []string{"nic"},
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(parameters)},
			}},
		}},
	}}
	return c
}
