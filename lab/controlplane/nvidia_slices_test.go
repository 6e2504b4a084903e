// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvidia"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/progress"
)

// recordedSlices is where the tests of commands find what was recorded.
const recordedSlices = "../../internal/cli/testdata/nvidia"

// balanced is what mig-parted's configuration all-balanced makes of an H200, and the mode
// alone on the next one.
const balanced = `made 4
mode 0000:8f:00.0 1 1
instance 0000:8f:00.0 1 9 4 MIG-00000000-0000-5000-8000-000000000001
instance 0000:8f:00.0 2 14 0 MIG-00000000-0000-5000-8000-000000000002
instance 0000:8f:00.0 3 19 2 MIG-00000000-0000-5000-8000-000000000003
instance 0000:8f:00.0 4 19 3 MIG-00000000-0000-5000-8000-000000000004
mode 0000:90:00.0 1 1
`

// TestNVIDIASlices has NVIDIA's own DRA driver publish what it makes of GPUs in a machine
// file, over the stand-in of its library, and compares with what was recorded; -update
// records anew. Of all its files none is the host's.
func TestNVIDIASlices(t *testing.T) {
	driver := nvidiaDriver(t)
	admin := serving(t)
	client, kubeconfig := kubernetes.NewForConfigOrDie(admin), adminKubeconfig(t, admin)
	for node, c := range map[string]struct {
		gpus int
		how  string
		args []string
		mig  string
	}{
		"nvidia-whole":      {8, "whole GPUs", nil, ""},
		"nvidia-mig":        {1, "one GPU of them, feature gate DynamicMIG on", []string{"--feature-gates=DynamicMIG=true"}, ""},
		"nvidia-mig-static": {3, "three GPUs of them, one cut by an administrator, one in MIG mode and not cut", nil, balanced},
		"nvidia-shares":     {1, "one GPU of them, in four shares", []string{"--feature-gates=ConsumableShares=true", "--consumable-shares=4"}, ""},
	} {
		t.Run(node, func(t *testing.T) {
			const name = "a3-ultragpu-8g"
			file, err := machine.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			file.Facts.GPUs = file.Facts.GPUs[:c.gpus]
			table, err := nvml.Table(file.Facts, node)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			published, err := driver.Publish(t.Context(), client, nvidia.Node{
				Name: node, Table: table, Sys: file.Tree, MIG: []byte(c.mig), Kubeconfig: kubeconfig, Args: c.args, Log: logOf(t),
			})
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("# What NVIDIA's DRA driver %s publishes of machine %s over the stand-in of its\n# library: %s. Written by go test ./controlplane -run TestNVIDIASlices -update.\n",
				build.NVIDIAVersion, name, c.how)
			golden.Assert(t, filepath.Join(recordedSlices, node+".yaml"), text+manifest(t, published))
		})
	}
}

// nvidiaDriver is NVIDIA's DRA driver over the lab's stand-ins.
func nvidiaDriver(t *testing.T) nvidia.Driver {
	t.Helper()
	needsCompiler(t)
	plugin := builtProgram(t, "nvidia/*/gpu-kubelet-plugin")
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
	return nvidia.Driver{Plugin: plugin, StandIn: node.NVIDIAStandIn{NVML: library, CUDA: cuda}}
}

// adminKubeconfig is a file for programs that an administrator starts.
func adminKubeconfig(t *testing.T, admin *rest.Config) string {
	t.Helper()
	return kubeconfigOf(t, admin, &clientcmdapi.AuthInfo{
		ClientCertificate: admin.CertFile, ClientCertificateData: admin.CertData, ClientKey: admin.KeyFile, ClientKeyData: admin.KeyData,
	})
}

// logOf keeps what a program says for a test that fails.
func logOf(t *testing.T) io.Writer {
	t.Helper()
	var log bytes.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	return &log
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
