// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/progress"
)

// recordedSlices is where the tests of commands find what was recorded.
const recordedSlices = "../../internal/cli/testdata/nvidia"

// TestNVIDIASlices has NVIDIA's own DRA driver publish what it makes of GPUs in a machine
// file, over the stand-in of its library, and compares with what was recorded; -update
// records anew. Of all its files none is the host's.
func TestNVIDIASlices(t *testing.T) {
	root := nvidiaDriverRoot(t)
	admin := serving(t)
	client := kubernetes.NewForConfigOrDie(admin)
	for node, c := range map[string]struct {
		gpus int
		how  string
		args []string
	}{
		"nvidia-whole":  {8, "whole GPUs", nil},
		"nvidia-mig":    {1, "one GPU of them, feature gate DynamicMIG on", []string{"--feature-gates=DynamicMIG=true"}},
		"nvidia-shares": {1, "one GPU of them, in four shares", []string{"--feature-gates=ConsumableShares=true", "--consumable-shares=4"}},
	} {
		t.Run(node, func(t *testing.T) {
			const name = "a3-ultragpu-8g"
			facts, err := machine.OpenFacts(name)
			if err != nil {
				t.Fatal(err)
			}
			facts.GPUs = facts.GPUs[:c.gpus]
			table, err := nvml.Table(facts, node)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, nvml.TablePath), table, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			published := publishedByNVIDIA(t, admin, root, name, node, c.args)
			text := fmt.Sprintf("# What NVIDIA's DRA driver %s publishes of machine %s over the stand-in of its\n# library: %s. Written by go test ./controlplane -run TestNVIDIASlices -update.\n",
				build.NVIDIAVersion, name, c.how)
			golden.Assert(t, filepath.Join(recordedSlices, node+".yaml"), text+manifest(t, published))
		})
	}
}

// nvidiaDriverRoot is a folder with what NVIDIA's driver looks for in its own.
func nvidiaDriverRoot(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("the stand-in for NVML is C: %v; install gcc and libc6-dev", err)
	}
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	said := progress.New(io.Discard, false, time.Now)
	library, err := nvml.Build(t.Context(), c, said, "../..")
	if err != nil {
		t.Fatal(err)
	}
	cuda, err := nvml.BuildCUDA(t.Context(), c, said)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	// With a folder dev of its own, the driver looks into no other.
	for _, name := range []string{"dev", "lib64", "bin", filepath.Dir(nvml.TablePath)} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{library: "lib64", cuda: "lib64", "../node/nvidia-smi.sh": "bin"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(from), ".sh")
		if err := os.WriteFile(filepath.Join(root, to, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// publishedByNVIDIA runs NVIDIA's kubelet plugin until it has published a pool.
func publishedByNVIDIA(t *testing.T, admin *rest.Config, root, name, node string, args []string) []resourceapi.ResourceSlice {
	t.Helper()
	f, err := machine.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sys := filepath.Join(dir, "machine")
	if err := f.Tree.WriteTo(sys); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	plugin := exec.Command(builtProgram(t, "nvidia/*/gpu-kubelet-plugin"), append([]string{
		"--node-name=" + node, "--image-name=none",
		"--nvidia-driver-root=" + root, "--container-driver-root=" + root,
		"--cdi-root=" + filepath.Join(dir, "cdi"), "--nvidia-cdi-hook-path=" + filepath.Join(dir, "nvidia-cdi-hook"),
		"--kubelet-plugins-directory-path=" + filepath.Join(dir, "plugins"),
		"--kubelet-registrar-directory-path=" + filepath.Join(dir, "registry"),
		"--kubeconfig=" + kubeconfigOf(t, admin, &clientcmdapi.AuthInfo{
			ClientCertificate: admin.CertFile, ClientCertificateData: admin.CertData, ClientKey: admin.KeyFile, ClientKeyData: admin.KeyData,
		}),
	}, args...)...)
	plugin.Dir, plugin.Stdout, plugin.Stderr = dir, &log, &log
	plugin.Env = []string{"HOME=" + dir, "PATH=/nonexistent", "NVIDIA_DRA_SYSFS_ROOT=" + filepath.Join(sys, "sys")}
	if err := os.MkdirAll(filepath.Join(dir, "registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = plugin.Process.Signal(syscall.SIGTERM)
		_ = plugin.Wait()
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	}()
	var published []resourceapi.ResourceSlice
	client := kubernetes.NewForConfigOrDie(admin)
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + node})
		if err != nil {
			return false, err
		}
		published = list.Items
		return len(published) > 0 && len(published) == int(published[0].Spec.Pool.ResourceSliceCount), nil
	})
	if err != nil {
		t.Fatalf("%d slices: %v", len(published), err)
	}
	return published
}

// manifest writes slices without what differs from one time to the next.
func manifest(t *testing.T, published []resourceapi.ResourceSlice) string {
	t.Helper()
	for i := range published {
		spec := &published[i].Spec
		// Without partitions, the driver publishes devices in random order.
		slices.SortFunc(spec.Devices, func(a, b resourceapi.Device) int { return cmp.Compare(a.Name, b.Name) })
		spec.Pool.Generation = 1
	}
	first := func(s *resourceapi.ResourceSlice) string {
		if len(s.Spec.Devices) == 0 {
			return "" // counters
		}
		return s.Spec.Devices[0].Name
	}
	slices.SortFunc(published, func(a, b resourceapi.ResourceSlice) int { return cmp.Compare(first(&a), first(&b)) })
	var text strings.Builder
	for i := range published {
		s := resourceapi.ResourceSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", *published[i].Spec.NodeName, i)},
			Spec:       published[i].Spec,
		}
		out, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(out)
	}
	return text.String()
}
