// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugins

import (
	"context"
	"encoding/json"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/model"
)

const (
	uuid0 = "GPU-4e2f3a51-0000-4d6c-9c0f-1f5f6f7a8b90"
	uuid1 = "GPU-4e2f3a51-0001-4d6c-9c0f-1f5f6f7a8b90"
	gpu   = "nvidia.com/gpu"
)

// fakeKubelet answers as the kubelet's pod-resources server does.
type fakeKubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	pods    []*podresources.PodResources
	offered []*podresources.ContainerDevices
	err     error
}

func (f *fakeKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: f.pods}, f.err
}

func (f *fakeKubelet) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	return &podresources.AllocatableResourcesResponse{Devices: f.offered}, nil
}

// serve is a kubelet's root with the socket.
func (f *fakeKubelet) serve(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "kubelet") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Mkdir(filepath.Join(root, "pod-resources"), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(root, socket))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return root
}

func given(resource string, ids ...string) *podresources.ContainerDevices {
	return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

func pod(name string, devices ...*podresources.ContainerDevices) *podresources.PodResources {
	return &podresources.PodResources{
		Namespace: "team", Name: name, Containers: []*podresources.ContainerResources{{Name: "main", Devices: devices}},
	}
}

// host has two GPUs, the second of which the kernel names no NUMA node, and a virtual
// function.
func host(t *testing.T) *model.Machine {
	t.Helper()
	function := func(bus uint8, class uint32, node *int) model.PCIFunction {
		return model.PCIFunction{
			Address: model.PCIAddress{Bus: bus}, Root: "pci0000:8c", Class: class, Vendor: 0x10de, Device: 0x2335,
			NUMANode: node, Driver: ptr.To("nvidia"), DeviceName: ptr.To("GH100 [H200 SXM 141GB]"),
		}
	}
	m, err := model.New(model.Machine{
		NUMANodes: []model.NUMANode{{ID: 0}},
		Roots:     []model.PCIRoot{{Name: "pci0000:8c", Published: true, NUMANode: ptr.To(0)}},
		Functions: []model.PCIFunction{function(0x8f, 0x030200, ptr.To(0)), function(0x90, 0x030200, nil), function(0x91, 0x020000, ptr.To(0))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func kubeletOf(t *testing.T, root string) Kubelet {
	m := host(t)
	information := func(uuid string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Model: \t\t NVIDIA H200\nGPU UUID: \t " + uuid + "\nDevice Minor: \t 0\n")}
	}
	return Kubelet{Node: "n1", Root: root, Machine: func() *model.Machine { return m }, Proc: fstest.MapFS{
		"driver/nvidia/gpus/0000:8f:00.0/information": information(uuid0),
		"driver/nvidia/gpus/0000:90:00.0/information": information(uuid1),
		"driver/nvidia/gpus/0000:a0:00.0/information": information("GPU-????????-????-????-????-????????????"),
	}}
}

// Each GPU of the device plugin is said once for each container that has it, and once if
// nobody has.
func TestLook(t *testing.T) {
	f := &fakeKubelet{
		pods: []*podresources.PodResources{
			pod("train-0", given(gpu, uuid0), given("example.com/fuse", "fuse-3")),
			pod("vf-0", given("example.com/vf", "0000:91:00.0")),
			pod("mig-0", given("nvidia.com/mig-1g.18gb", "MIG-7c1d")),
			pod("idle"),
		},
		offered: []*podresources.ContainerDevices{given(gpu, uuid0), given(gpu, uuid1), given("example.com/fuse", "fuse-3", "fuse-4")},
	}
	r, err := kubeletOf(t, f.serve(t)).Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range r.Devices {
		line := d.Resource + " " + d.ID
		if d.Function != nil {
			line += " at " + d.Function.Address + " on " + d.Function.Root
		}
		if d.Held != nil {
			line += " of " + d.Held.Namespace + "/" + d.Held.Pod + "/" + d.Held.Container
		}
		got = append(got, line)
	}
	want := []string{
		gpu + " " + uuid0 + " at 0000:8f:00.0 on pci0000:8c of team/train-0/main",
		"example.com/vf 0000:91:00.0 at 0000:91:00.0 on pci0000:8c of team/vf-0/main",
		"nvidia.com/mig-1g.18gb MIG-7c1d of team/mig-0/main",
		gpu + " " + uuid1 + " at 0000:90:00.0 on pci0000:8c",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	second := r.Devices[len(r.Devices)-1].Function
	if second == nil || second.NUMANode == nil || *second.NUMANode != 0 || !second.RootPublished || second.Driver != "nvidia" || second.Product == "" {
		t.Errorf("%+v, want the node of its root", second)
	}
}

// NVIDIA's plugin offers a GPU several times where it is shared in time.
func TestReplicas(t *testing.T) {
	f := &fakeKubelet{
		pods:    []*podresources.PodResources{pod("a", given("nvidia.com/gpu.shared", uuid0+"::0")), pod("b", given("nvidia.com/gpu.shared", uuid0+"::1"))},
		offered: []*podresources.ContainerDevices{given("nvidia.com/gpu.shared", uuid0+"::0", uuid0+"::1", uuid0+"::2")},
	}
	r, err := kubeletOf(t, f.serve(t)).Look(t.Context())
	if err != nil || len(r.Devices) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, d := range r.Devices {
		if d.Function == nil || d.Function.Address != "0000:8f:00.0" {
			t.Errorf("%+v, want each replica at its GPU", d)
		}
	}
}

// What cannot be told says why.
func TestNotTold(t *testing.T) {
	refusing := &fakeKubelet{err: status.Error(codes.ResourceExhausted, "rejected by rate limit")}
	stale := t.TempDir()
	if err := os.MkdirAll(filepath.Join(stale, "pod-resources"), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(stale, socket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	unscanned := kubeletOf(t, "")
	unscanned.Machine = func() *model.Machine { return nil }
	for name, tt := range map[string]struct {
		kubelet Kubelet
		says    string
	}{
		"no socket":      {kubeletOf(t, t.TempDir()), "pod-resources/kubelet.sock: no such file or directory"},
		"nobody listens": {kubeletOf(t, stale), "connection refused"},
		"refused":        {kubeletOf(t, refusing.serve(t)), "rejected by rate limit"},
		"not scanned":    {unscanned, "the machine was not scanned yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			tt.kubelet.ServeHTTP(w, httptest.NewRequest("GET", Path, nil))
			if w.Code != 503 || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %q, want %q", w.Code, w.Body.String(), tt.says)
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	f := &fakeKubelet{pods: []*podresources.PodResources{pod("train-0", given(gpu, uuid0))}}
	w := httptest.NewRecorder()
	kubeletOf(t, f.serve(t)).ServeHTTP(w, httptest.NewRequest("GET", Path, nil))
	var r deviceplugin.Report
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != 200 {
		t.Fatalf("%d: %v", w.Code, err)
	}
	if r.Kind != deviceplugin.Kind || r.Node != "n1" || len(r.Devices) != 1 || r.Devices[0].Held == nil {
		t.Errorf("%+v", r)
	}
}
