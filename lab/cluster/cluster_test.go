// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

func TestParseSimulated(t *testing.T) {
	tests := []struct {
		text string
		want []Simulated
		ok   bool
	}{
		{"", nil, true},
		{"a=2", []Simulated{{"a", 2}}, true},
		{"a=2,./b.yaml=5000", []Simulated{{"a", 2}, {"./b.yaml", 5000}}, true},
		{"a", nil, false}, {"a=", nil, false}, {"a=0", nil, false}, {"a=-1", nil, false},
		{"=1", nil, false}, {"a=x", nil, false}, {"a=5001", nil, false},
	}
	for _, tt := range tests {
		got, err := ParseSimulated(tt.text)
		if (err == nil) != tt.ok {
			t.Errorf("ParseSimulated(%q): %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseSimulated(%q): %s", tt.text, diff)
		}
	}
}

func TestOpenRefusesNames(t *testing.T) {
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"lab": true, "a-1": true, "": false, "..": false, "a/b": false, "A": false, "1a": false, strings.Repeat("a", 32): false,
	} {
		if _, err := Open(c, name); (err == nil) != ok {
			t.Errorf("Open(%q): %v", name, err)
		}
	}
}

func TestSimulatedNodeIsTakenForReal(t *testing.T) {
	facts, err := machine.OpenFacts("azure-nd96isr-h100-v5")
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	for range 2 {
		if err := createNode(t.Context(), client, facts, "n1"); err != nil {
			t.Fatal(err)
		}
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ready, why := isReady(node); !ready {
		t.Error(why)
	}
	if got := node.Status.Allocatable.Cpu().Value(); got != 96 {
		t.Errorf("allocatable CPUs = %d", got)
	}
}

// Pods select a node by the labels of its cloud.
func TestNodeCarriesTheMachineFilesLabels(t *testing.T) {
	facts, err := machine.OpenFacts("gcp-ct6e-standard-4t")
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(facts)}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: uninitialized, Effect: corev1.TaintEffectNoSchedule}},
	}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := cloudOf(facts, Options{}).describe(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	if err := createNode(t.Context(), client, facts, "simulated"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nodeName(facts), "simulated"} {
		node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node.Labels["cloud.google.com/gke-tpu-topology"] != "4x4" || len(node.Spec.Taints) != 0 {
			t.Errorf("%s: labels %v, taints %v", name, node.Labels, node.Spec.Taints)
		}
		for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			if tpus := list["google.com/tpu"]; tpus.Value() != 4 {
				t.Errorf("%s: %v", name, list)
			}
		}
	}
}

// Published GPUs answer nvidia.com/gpu already: a second offer would be met
// without a device.
func TestGPUsAreOfferedOnce(t *testing.T) {
	facts := &machine.Facts{Name: "n"}
	facts.Kubernetes.ExtendedResources = map[string]int{gpuResource: 4}
	if got := cloudOf(facts, Options{}).extended; len(got) != 0 {
		t.Errorf("offered %v beside the driver's devices", got)
	}
	if got := cloudOf(facts, Options{NoInstall: true}).extended[gpuResource]; got != 4 {
		t.Errorf("offered %d without the driver, want 4", got)
	}
}

func TestCopyUntil(t *testing.T) {
	for in, want := range map[string]string{"ls\n": "ls\n", "a\x1db": "a", "\x1d": "", "": ""} {
		var out strings.Builder
		if err := copyUntil(&out, strings.NewReader(in), leave); err != nil || out.String() != want {
			t.Errorf("copyUntil(%q) = %q, %v", in, out.String(), err)
		}
	}
}

func TestCheckShape(t *testing.T) {
	for name, ok := range map[string]bool{"a3-ultragpu-8g": true, "egx-t4-cx5": true, "azure-nd96isr-h100-v5": false} {
		facts, err := machine.OpenFacts(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkShape(facts, Options{}); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoServesGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		wrong   string
	}{
		"left open":             {Options{Machine: "a3-ultragpu-8g"}, ""},
		"NVIDIA":                {Options{Machine: "a3-ultragpu-8g", GPUs: GPUsOfNVIDIA}, ""},
		"nobody":                {Options{Machine: "gcp-ct6e-standard-4t", GPUs: GPUsNone}, ""},
		"a machine without any": {Options{Machine: "gcp-ct6e-standard-4t", GPUs: GPUsOfNVIDIA}, "gcp-ct6e-standard-4t has no GPU"},
		"this host":             {Options{OnHost: true, GPUs: GPUsOfNVIDIA}, "--node host"},
		"somebody else":         {Options{Machine: "a3-ultragpu-8g", GPUs: "native"}, `--gpu "native": want nvidia`},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.options.check()
			if tc.wrong == "" && err != nil || tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)) {
				t.Errorf("error %v, want %q", err, tc.wrong)
			}
		})
	}
}

// A node that runs keeps what it was booted for.
func TestHardwareNamesTheDriver(t *testing.T) {
	facts := &machine.Facts{Name: "n"}
	if got := (Options{GPUs: GPUsOfNVIDIA}).hardware(facts); got != "n and NVIDIA's driver" {
		t.Errorf("hardware %q", got)
	}
	if got := (Options{GPUs: GPUsOfNVIDIA, Guest: GuestRDMA}).hardware(facts); got != "n and NVIDIA's driver and RDMA in namespaces" {
		t.Errorf("hardware %q", got)
	}
	if got := (Options{Guest: GuestRDMA, ExclusiveRDMA: true}).hardware(facts); got != "n and RDMA in namespaces, exclusively" {
		t.Errorf("hardware %q", got)
	}
	if got := (Options{Guest: GuestRDMA, DNS: true, ExclusiveRDMA: true}).hardware(facts); got != "n and RDMA in namespaces and DNS, exclusively" {
		t.Errorf("hardware %q", got)
	}
	if got := (Options{GPUs: GPUsSimulated}).hardware(facts); got != "n" {
		t.Errorf("hardware %q", got)
	}
}

// Where NVIDIA's driver does not build, the error says how to go on without it.
func TestBuildOfNVIDIAFails(t *testing.T) {
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	said, source := progress.New(io.Discard, false, time.Now), t.TempDir()
	b := &ArtifactBuilder{cache: c, progress: said, source: source}
	if b.builder, err = build.New(t.Context(), c, said, source); err != nil {
		t.Skip(err)
	}
	_, err = b.buildNVIDIA(t.Context())
	if err == nil || !strings.Contains(err.Error(), "without with --gpu simulated: NVIDIA's DRA driver "+build.NVIDIAVersion) {
		t.Errorf("error %v, want one that names --gpu simulated and what is not built", err)
	}
}
