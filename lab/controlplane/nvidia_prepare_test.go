// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/progress"
)

// TestNVIDIAPrepares is the kubelet to NVIDIA's own DRA driver.
func TestNVIDIAPrepares(t *testing.T) {
	if os.Geteuid() != 0 {
		lacks(t, "making namespaces and files of devices needs root")
	}
	needsCompiler(t)
	plugin := builtProgram(t, "nvidia/*/gpu-kubelet-plugin")
	admin := serving(t)
	t.Run("MIG", func(t *testing.T) {
		preparesMIG(newNVIDIANode(t, admin, plugin, "mig-prepared", "--feature-gates=DynamicMIG=true"))
	})
	t.Run("shares", func(t *testing.T) {
		preparesShares(newNVIDIANode(t, admin, plugin, "shares-prepared", "--feature-gates=ConsumableShares=true", "--consumable-shares=4"))
	})
}

// preparesMIG has the driver make MIG devices of the stand-in's GPUs, kills it, and wants it
// to find what it made.
func preparesMIG(n *nvidiaNode) {
	t := n.t
	n.start()
	half := n.allocate(resourceapi.DeviceRequestAllocationResult{Device: "gpu-0-mig-3g71gb-9-4"})
	if diff := cmp.Diff([]string{"nvidia-cap12 384:12", "nvidia-cap13 384:13", "nvidia0", "nvidiactl"}, n.prepare(half)); diff != "" {
		t.Errorf("a half of a GPU (-want +got):\n%s", diff)
	}
	before := n.state()
	n.kill()
	// What nobody claimed does not outlive the driver.
	n.write(nvml.MIGPath, before+"mode 0000:90:00.0 1 1\ninstance 0000:90:00.0 1 9 0 MIG-nobody\n")
	n.start()
	if got := n.state(); got != before {
		t.Errorf("after the driver was killed there is:\n%s, before:\n%s", got, before)
	}
	small := n.allocate(resourceapi.DeviceRequestAllocationResult{Device: "gpu-0-mig-1g18gb-19-0"})
	if diff := cmp.Diff([]string{"nvidia-cap21 384:21", "nvidia-cap22 384:22", "nvidia0", "nvidiactl"}, n.prepare(small)); diff != "" {
		t.Errorf("a small part of the same GPU (-want +got):\n%s", diff)
	}
	n.unprepare(half)
	if got := n.state(); strings.Count(got, "instance") != 1 || !strings.Contains(got, "instance 0000:8f:00.0 2 19 0 MIG-") {
		t.Errorf("with the half of the GPU gone there is:\n%s", got)
	}
	n.unprepare(small)
	killedWhilePreparing(n)
	if got := n.state(); got != "made 3\n" {
		t.Errorf("without a claim there is:\n%s", got)
	}
	if left, err := filepath.Glob(filepath.Join(n.root, nvml.ProcDriver, "nvidia/capabilities/gpu*/mig/*")); err != nil || len(left) > 0 {
		t.Errorf("left are the capabilities %v, %v", left, err)
	}
}

// killedWhilePreparing kills the driver while the GPU makes an instance for a claim. Nothing
// of it is left, and the part is prepared for the next claim. The claim itself v0.5.0 refuses
// from then on: it undoes what was begun by the device's name, and does not find the GPU's
// address in that. A release that does fails this test, and docs/gpu.md is to say so.
func killedWhilePreparing(n *nvidiaNode) {
	t := n.t
	part := n.allocate(resourceapi.DeviceRequestAllocationResult{Device: "gpu-0-mig-3g71gb-9-0"})
	n.write(nvml.EventsPath, "hang 0000:8f:00.0\n")
	client, ended := n.ask(), make(chan error, 1)
	go func() {
		_, err := client.NodePrepareResources(t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{n.claims[part]}})
		ended <- err
	}()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return strings.Contains(n.state(), "mode 0000:8f:00.0 1 1"), nil
	})
	if err != nil {
		t.Fatalf("wait for the GPU's MIG mode, in which an instance is made next: %v; there is:\n%s", err, n.state())
	}
	n.kill()
	if err := <-ended; err == nil {
		t.Error("the driver prepared the claim before it was killed")
	}
	n.write(nvml.EventsPath, "")
	n.start()
	reply, err := n.ask().NodePrepareResources(t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{n.claims[part]}})
	if err != nil {
		t.Fatal(err)
	}
	if said := reply.Claims[n.claims[part].Uid].Error; !strings.Contains(said, "rollback failed for partially prepared claim") {
		t.Errorf("the claim that was being prepared: %q, want that it is refused", said)
	}
	if got := n.state(); strings.Contains(got, "instance") {
		t.Errorf("of a claim that is not prepared there is:\n%s", got)
	}
	next := n.allocate(resourceapi.DeviceRequestAllocationResult{Device: "gpu-0-mig-3g71gb-9-0"})
	if diff := cmp.Diff([]string{"nvidia-cap12 384:12", "nvidia-cap13 384:13", "nvidia0", "nvidiactl"}, n.prepare(next)); diff != "" {
		t.Errorf("the same part for the next claim (-want +got):\n%s", diff)
	}
	if got := n.state(); strings.Count(got, "instance") != 1 || !strings.Contains(got, "instance 0000:8f:00.0 1 9 0 MIG-") {
		t.Errorf("with one part of a GPU there is:\n%s", got)
	}
	n.unprepare(next)
}

// preparesShares has two claims of one GPU prepared at once.
func preparesShares(n *nvidiaNode) {
	t := n.t
	n.start()
	share := func() types.NamespacedName {
		return n.allocate(resourceapi.DeviceRequestAllocationResult{
			Device: "gpu-0", ShareID: ptr.To(types.UID(uuid.NewString())),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("1")},
		})
	}
	first, second := share(), share()
	want := []string{"nvidia0", "nvidiactl"}
	for _, claim := range []types.NamespacedName{first, second} {
		if diff := cmp.Diff(want, n.prepare(claim)); diff != "" {
			t.Errorf("a share (-want +got):\n%s", diff)
		}
	}
	n.unprepare(first)
	if diff := cmp.Diff(want, n.prepare(second)); diff != "" {
		t.Errorf("the share that is left (-want +got):\n%s", diff)
	}
}

// nvidiaNode is a node with NVIDIA's kubelet plugin, as the kubelet sees it. No GPU is
// there, and none of the files but devices' is the host's.
type nvidiaNode struct {
	t         *testing.T
	name      string
	root, dir string
	argv      []string
	client    kubernetes.Interface
	plugin    *exec.Cmd
	claims    map[types.NamespacedName]*dra.Claim
}

func newNVIDIANode(t *testing.T, admin *rest.Config, plugin, name string, args ...string) *nvidiaNode {
	t.Helper()
	n := &nvidiaNode{
		t: t, name: name, root: t.TempDir(), dir: t.TempDir(), client: kubernetes.NewForConfigOrDie(admin),
		claims: map[types.NamespacedName]*dra.Claim{},
	}
	f, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	n.writeRoot(f.Facts)
	sys := filepath.Join(n.dir, "machine")
	if err := f.Tree.WriteTo(sys); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(n.dir, "registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.argv = append([]string{
		"env", "-i", "HOME=" + n.dir, "NVIDIA_DRA_SYSFS_ROOT=" + filepath.Join(sys, "sys"), plugin,
		"--node-name=" + name, "--image-name=none",
		"--nvidia-driver-root=" + n.root, "--container-driver-root=" + n.root,
		"--cdi-root=" + filepath.Join(n.dir, "cdi"), "--nvidia-cdi-hook-path=" + filepath.Join(n.dir, "nvidia-cdi-hook"),
		"--kubelet-plugins-directory-path=" + filepath.Join(n.dir, "plugins"),
		"--kubelet-registrar-directory-path=" + filepath.Join(n.dir, "registry"),
		"--kubeconfig=" + kubeconfigOf(t, admin, &clientcmdapi.AuthInfo{
			ClientCertificate: admin.CertFile, ClientCertificateData: admin.CertData, ClientKey: admin.KeyFile, ClientKeyData: admin.KeyData,
		}),
	}, args...)
	if _, err := n.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// writeRoot makes what a node has below the root of NVIDIA's kernel driver, and the files
// of devices there.
func (n *nvidiaNode) writeRoot(facts *machine.Facts) {
	n.t.Helper()
	c, err := cache.Open(n.t.TempDir())
	if err != nil {
		n.t.Fatal(err)
	}
	said := progress.New(io.Discard, false, time.Now)
	library, err1 := nvml.Build(n.t.Context(), c, said, "../..")
	cuda, err2 := nvml.BuildCUDA(n.t.Context(), c, said)
	if err := errors.Join(err1, err2); err != nil {
		n.t.Fatal(err)
	}
	files, _, err := node.NVIDIAStandIn{NVML: library, CUDA: cuda}.On(facts, n.name)
	if err != nil {
		n.t.Fatal(err)
	}
	for path, file := range files {
		below, ok := strings.CutPrefix(path, node.NVIDIADriverRoot+"/")
		if !ok {
			continue
		}
		text := file.Content
		if file.Source != "" {
			if text, err = os.ReadFile(file.Source); err != nil {
				n.t.Fatal(err)
			}
		}
		n.write(below, string(text))
		if err := os.Chmod(filepath.Join(n.root, below), 0o755); err != nil {
			n.t.Fatal(err)
		}
	}
	n.write("proc/devices", "Character devices:\n384 nvidia-caps\n\nBlock devices:\n")
	if err := os.Mkdir(filepath.Join(n.root, "dev"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	for name, minor := range map[string]uint32{"nvidia0": 0, "nvidiactl": 255} {
		if err := unix.Mknod(filepath.Join(n.root, "dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor))); err != nil {
			lacks(n.t, fmt.Sprintf("files of devices cannot be made here: %v", err))
		}
	}
}

// write makes a file below the driver's root.
func (n *nvidiaNode) write(below, text string) {
	n.t.Helper()
	path := filepath.Join(n.root, below)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// start runs the plugin, with the stand-in's files over its own /proc, until it has
// published and answers.
func (n *nvidiaNode) start() {
	n.t.Helper()
	const inOwnProc = `mount --make-rprivate /
for one in driver devices; do mount --bind "$0/proc/$one" "/proc/$one"; done
exec "$@"`
	var log bytes.Buffer
	n.plugin = exec.Command("sh", append([]string{"-ec", inOwnProc, n.root}, n.argv...)...)
	n.plugin.Dir, n.plugin.Stdout, n.plugin.Stderr = n.dir, &log, &log
	n.plugin.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := n.plugin.Start(); err != nil {
		n.t.Fatal(err)
	}
	started := n.plugin
	n.t.Cleanup(func() {
		_ = started.Process.Kill()
		_ = started.Wait()
		if n.t.Failed() {
			n.t.Logf("%s", log.Bytes())
		}
	})
	err := wait.PollUntilContextTimeout(n.t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := n.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + n.name})
		if err != nil || len(list.Items) == 0 || len(list.Items) != int(list.Items[0].Spec.Pool.ResourceSliceCount) {
			return false, err
		}
		_, err = n.ask().NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{})
		return err == nil, nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// kill ends the plugin as the kernel does when memory is short.
func (n *nvidiaNode) kill() {
	n.t.Helper()
	if err := n.plugin.Process.Kill(); err != nil {
		n.t.Fatal(err)
	}
	_ = n.plugin.Wait()
}

func (n *nvidiaNode) ask() dra.DRAPluginClient {
	n.t.Helper()
	socket := filepath.Join(n.dir, "plugins", slicecodec.DriverGPU, "dra.sock")
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return dra.NewDRAPluginClient(conn)
}

// allocate makes a claim that has a device, as the scheduler would give it.
func (n *nvidiaNode) allocate(result resourceapi.DeviceRequestAllocationResult) types.NamespacedName {
	n.t.Helper()
	result.Request, result.Driver, result.Pool = "part", slicecodec.DriverGPU, n.name
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", n.name, len(n.claims)), Namespace: metav1.NamespaceDefault}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: result.Request, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: slicecodec.DriverGPU}}}
	claims := n.client.ResourceV1().ResourceClaims(claim.Namespace)
	claim, err := claims.Create(n.t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
	if _, err := claims.UpdateStatus(n.t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	n.claims[key] = &dra.Claim{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)}
	return key
}

var gpuFile = regexp.MustCompile(`nvidia(ctl|[0-9]+)$`)

// prepare has the plugin prepare a claim, and returns the files of devices that its
// container is to have: those of capabilities with their numbers.
func (n *nvidiaNode) prepare(key types.NamespacedName) []string {
	n.t.Helper()
	claim := n.claims[key]
	reply, err := n.ask().NodePrepareResources(n.t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{claim}})
	if err != nil {
		n.t.Fatal(err)
	}
	one := reply.Claims[claim.Uid]
	if one == nil || one.Error != "" || len(one.Devices) != 1 {
		n.t.Fatalf("prepare %s: %v", key, reply)
	}
	text, err := os.ReadFile(filepath.Join(n.dir, "cdi", "k8s.gpu.nvidia.com-claim_"+claim.Uid+".yaml"))
	if err != nil {
		n.t.Fatal(err)
	}
	type edits struct {
		DeviceNodes []struct {
			Path         string
			Major, Minor int
		}
	}
	var spec struct {
		Kind           string
		ContainerEdits edits
		Devices        []struct {
			Name           string
			ContainerEdits edits
		}
	}
	if err := yaml.Unmarshal(text, &spec); err != nil {
		n.t.Fatal(err)
	}
	var files []string
	for _, d := range spec.Devices {
		if id := spec.Kind + "=" + d.Name; slices.Equal(one.Devices[0].CdiDeviceIds, []string{id}) {
			for _, f := range append(d.ContainerEdits.DeviceNodes, spec.ContainerEdits.DeviceNodes...) {
				name := filepath.Base(f.Path)
				switch {
				case strings.HasPrefix(f.Path, "/dev/nvidia-caps/"):
					files = append(files, fmt.Sprintf("%s %d:%d", name, f.Major, f.Minor))
				case gpuFile.MatchString(f.Path):
					files = append(files, name)
				}
			}
		}
	}
	slices.Sort(files)
	return files
}

func (n *nvidiaNode) unprepare(key types.NamespacedName) {
	n.t.Helper()
	claim := n.claims[key]
	reply, err := n.ask().NodeUnprepareResources(n.t.Context(), &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{claim}})
	if err != nil || reply.Claims[claim.Uid] == nil || reply.Claims[claim.Uid].Error != "" {
		n.t.Fatalf("unprepare %s: %v, %v", key, reply, err)
	}
}

// state is what is made of the GPUs.
func (n *nvidiaNode) state() string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, nvml.MIGPath))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}
