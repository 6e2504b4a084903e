// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvidia

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/progress"
)

// devicePlugin is NVIDIA's device plugin where plumblab gpus has built it: nothing else
// needs it.
func devicePlugin(t *testing.T) string {
	t.Helper()
	folders := []string{"../../.cache"}
	if home, err := os.UserCacheDir(); err == nil {
		folders = append(folders, filepath.Join(home, "plumbline"))
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "store", "nvidiadeviceplugin", "*", "nvidia-device-plugin"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			program, err := filepath.Abs(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return program
		}
	}
	t.Skip("NVIDIA's device plugin is not built: run plumblab gpus")
	return ""
}

// kubelet is the part of a kubelet that device plugins call.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	registered chan *pluginapi.RegisterRequest
}

func (k kubelet) Register(_ context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.registered <- request
	return &pluginapi.Empty{}, nil
}

// serveKubelet listens where a plugin that knows the folder registers.
func serveKubelet(t *testing.T, dir string) kubelet {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k := kubelet{registered: make(chan *pluginapi.RegisterRequest, 1)}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, k)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return k
}

// NVIDIA's device plugin offers the GPUs of the stand-in by their UUIDs, says which it would
// rather give together, and gives the file of one. The folder of kubelet's sockets is written
// into it, so it sees another one there, for which it takes root.
func TestDevicePlugin(t *testing.T) {
	program := devicePlugin(t)
	if os.Geteuid() != 0 {
		t.Skip("a mount namespace takes root")
	}
	file, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	table, err := nvml.Table(file.Facts, "n")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	library, err := nvml.Build(t.Context(), c, progress.New(io.Discard, false, time.Now), "../..")
	if err != nil {
		t.Fatal(err)
	}
	// Sockets' paths must be short.
	dir, err := os.MkdirTemp("", "nvidia-device-plugin-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	root, sockets := filepath.Join(dir, "driver"), filepath.Join(dir, "kubelet")
	files := node.NVIDIAStandIn{NVML: library}.DriverRoot(table)
	for at, f := range files {
		if f.Source != "" && f.Source != library {
			delete(files, at)
		}
	}
	if err := writeFiles(root, files); err != nil {
		t.Fatal(err)
	}
	if err := file.Tree.WriteTo(filepath.Join(dir, "machine")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sockets, 0o755); err != nil {
		t.Fatal(err)
	}
	registered := serveKubelet(t, sockets).registered

	const script = `mount -t tmpfs none /var/lib
mkdir -p /var/lib/kubelet/device-plugins
mount --bind "$1" /var/lib/kubelet/device-plugins
shift
exec "$@"`
	var log bytes.Buffer
	plugin := exec.CommandContext(t.Context(), "sh", "-ec", script, "sh", sockets, program,
		"--pass-device-specs", "--device-discovery-strategy=nvml", "--driver-root-ctr-path="+root)
	plugin.Env = append(os.Environ(), "NVML_STANDIN_SYS="+filepath.Join(dir, "machine", "sys"))
	plugin.Stdout, plugin.Stderr = &log, &log
	// Go makes all mounts of the new namespace private: none reaches this host.
	plugin.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plugin.Process.Signal(syscall.SIGTERM)
		_ = plugin.Wait() // its log says why it ended
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	var request *pluginapi.RegisterRequest
	select {
	case request = <-registered:
	case <-time.After(publishAtMost):
		t.Fatal("it registers nowhere")
	}
	if request.ResourceName != "nvidia.com/gpu" {
		t.Errorf("it offers %s", request.ResourceName)
	}
	asks(t, "unix://"+filepath.Join(sockets, request.Endpoint), file.Facts)
}

// asks asks the plugin what a kubelet does.
func asks(t *testing.T, socket string, facts *machine.Facts) {
	t.Helper()
	connection, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), publishAtMost)
	defer cancel()
	client := pluginapi.NewDevicePluginClient(connection)
	watch, err := client.ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range listed.Devices {
		if d.Health != pluginapi.Healthy {
			t.Errorf("%s is %s", d.ID, d.Health)
		}
		ids = append(ids, d.ID)
	}
	if len(ids) != len(facts.GPUs) {
		t.Fatalf("it offers %v, want %d GPUs", ids, len(facts.GPUs))
	}
	preferred, err := client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: ids, AllocationSize: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	given, err := client.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: preferred.ContainerResponses[0].DeviceIDs}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, d := range given.ContainerResponses[0].Devices {
		paths = append(paths, d.HostPath)
	}
	slices.Sort(paths)
	// The machine has two GPUs below each switch.
	pairs := [][]string{{"/dev/nvidia0", "/dev/nvidia1"}, {"/dev/nvidia2", "/dev/nvidia3"}, {"/dev/nvidia4", "/dev/nvidia5"}, {"/dev/nvidia6", "/dev/nvidia7"}}
	if !slices.ContainsFunc(pairs, func(pair []string) bool { return slices.Equal(pair, paths) }) {
		t.Errorf("two GPUs are %v, want two of one switch", paths)
	}
}
