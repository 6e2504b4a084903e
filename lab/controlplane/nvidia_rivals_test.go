// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/lab/nvidia"
	"plumbline.dev/plumbline/lab/nvml"
)

// rivals is a node whose GPUs NVIDIA's driver and plumbline's agent can publish.
type rivals struct {
	name       string
	driver     nvidia.Driver
	admin      *rest.Config
	node       *corev1.Node
	theirs     nvidia.Node
	ours       []resourceapi.ResourceSlice
	client     *kubernetes.Clientset // the agent's
	kubeconfig string
	plumbline  string // the command of that name
}

// newRivals makes a node.
func newRivals(t *testing.T, driver nvidia.Driver, admin *rest.Config, plumbline, name string) *rivals {
	t.Helper()
	file, err := machine.Open(azure)
	if err != nil {
		t.Fatal(err)
	}
	r := &rivals{name: name, driver: driver, admin: admin, kubeconfig: adminKubeconfig(t, admin), plumbline: plumbline}
	as := rest.CopyConfig(admin)
	as.UserAgent = kube.Manager
	r.client = kubernetes.NewForConfigOrDie(as)
	r.node, err = r.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := nvml.Table(file.Facts, name)
	if err != nil {
		t.Fatal(err)
	}
	r.theirs = nvidia.Node{Name: name, Table: table, Sys: file.Tree, Kubeconfig: r.kubeconfig, Log: logOf(t)}
	all, _, err := nodeslices.OfFile(t.Context(), file, nodeslices.Options{Node: name, Simulated: true})
	if err != nil {
		t.Fatal(err)
	}
	r.ours = slices.DeleteFunc(all, func(s resourceapi.ResourceSlice) bool { return s.Spec.Driver != slicecodec.DriverGPU })
	return r
}

// register has the agent offer the GPUs to a kubelet, which is not there.
func (r *rivals) register(t *testing.T) (*registration.Registration, error) {
	t.Helper()
	// Not t.TempDir(): the path of a socket has room for 107 characters.
	kubelet, err := os.MkdirTemp("", "kubelet-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(kubelet); err != nil {
			t.Error(err)
		}
	})
	return registration.Register(t.Context(), &claims.Preparer{Driver: claims.Of(&agenttest.FakeDriver{DriverName: slicecodec.DriverGPU})}, registration.Node{
		Name: r.name, Manager: kube.Manager, KubeletRoot: kubelet, AgentsDir: filepath.Join(kubelet, "agents"), Client: r.client,
	}, nil, func(error) {})
}

// wait waits for the slices of GPUs of the node to be some way.
func (r *rivals) wait(ctx context.Context, like func([]resourceapi.ResourceSlice) bool) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := r.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
			FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + slicecodec.DriverGPU + "," + resourceapi.ResourceSliceSelectorNodeName + "=" + r.name,
		})
		return err == nil && like(list.Items), err
	})
}

// by says whether a slice was written by all of them.
func by(names ...string) func([]resourceapi.ResourceSlice) bool {
	return func(all []resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(all, func(s resourceapi.ResourceSlice) bool {
			return slices.Equal(slicecodec.Writers(&s, time.Time{}), names)
		})
	}
}

// said is what a command of plumbline's prints about the cluster.
func (r *rivals) said(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), r.plumbline, append(args, "--kubeconfig", r.kubeconfig)...).CombinedOutput() // it has findings
	return string(out)
}

// nvidiasPlugin is what the API server calls NVIDIA's driver.
const nvidiasPlugin = "gpu-kubelet-plugin"

const oneGPU = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
`

// TestAgentBesideNVIDIAsDriver has NVIDIA's driver and plumbline's agent serve the GPUs of one
// node. The agent does not begin where NVIDIA's driver publishes; where the other one comes
// later, which looks for no rival, it is told whose slices they are.
func TestAgentBesideNVIDIAsDriver(t *testing.T) {
	driver := nvidiaDriver(t)
	admin := serving(t)
	installDefaults(t, admin)
	plumbline := filepath.Join(t.TempDir(), "plumbline")
	compile := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "grpcnotrace,nri_no_wasm", "-o", plumbline, "./cmd/plumbline")
	compile.Dir = "../.."
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	t.Run("the agent comes second", func(t *testing.T) { newRivals(t, driver, admin, plumbline, "second").agentSecond(t) })
	t.Run("NVIDIA's driver comes second", func(t *testing.T) { newRivals(t, driver, admin, plumbline, "first").agentFirst(t) })
}

func (r *rivals) agentSecond(t *testing.T) {
	t.Helper()
	err := r.driver.While(t.Context(), r.theirs, func(ctx context.Context) error {
		if err := r.wait(ctx, by(nvidiasPlugin)); err != nil {
			return err
		}
		registered, err := r.register(t)
		if err == nil {
			registered.Stop()
		}
		if !errors.Is(err, registration.ErrRival) || !strings.Contains(err.Error(), "was written by "+nvidiasPlugin) {
			t.Errorf("the agent registers: %v", err)
		}
		// Something else, which looks for nobody, writes a pool of its own.
		slice := r.ours[0]
		if _, err := r.client.ResourceV1().ResourceSlices().Create(ctx, &slice, metav1.CreateOptions{}); err != nil {
			return err
		}
		claim := filepath.Join(t.TempDir(), "claim.yaml")
		if err := os.WriteFile(claim, []byte(oneGPU), 0o644); err != nil {
			return err
		}
		const want = "2 of 1 slices of generation 1 are published; its slices were written by gpu-kubelet-plugin and plumbline-agent"
		if said := r.said(t, "explain", "-f", claim, "--node", r.name); !strings.Contains(said, want) {
			t.Errorf("explain does not say %q:\n%s", want, said)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rivals) agentFirst(t *testing.T) {
	t.Helper()
	registered, err := r.register(t)
	if err != nil {
		t.Fatal(err)
	}
	defer registered.Stop()
	err = registered.PublishResources(t.Context(), resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		r.name: {Slices: []resourceslice.Slice{{Devices: r.ours[0].Spec.Devices}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.wait(t.Context(), by(kube.Manager)); err != nil {
		t.Fatal(err)
	}
	if err := newApplier(t, r.admin).apply(t.Context(), reportOf(r.node), "", false); err != nil {
		t.Fatal(err)
	}
	err = r.driver.While(t.Context(), r.theirs, func(ctx context.Context) error {
		if err := r.wait(ctx, by(nvidiasPlugin, kube.Manager)); err != nil {
			return err
		}
		const want = "written by gpu-kubelet-plugin and plumbline-agent within minutes"
		if said := r.said(t, "doctor", "--node", r.name, "--all"); !strings.Contains(said, want) {
			t.Errorf("doctor does not say %q:\n%s", want, said)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
