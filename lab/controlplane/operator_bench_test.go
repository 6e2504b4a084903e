// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/operator"
	"plumbline.dev/plumbline/internal/unixhttp"
)

// BenchmarkOperatorThousandNodes is what the shipped operator costs a cluster of a thousand
// machines like A3 Ultra, each with its report: resident memory when all nodes have their
// conditions, writes in a minute in which nothing happens, and the most memory while it
// says why twenty pods wait. It wants a control plane, which plumblab builds.
func BenchmarkOperatorThousandNodes(b *testing.B) {
	const nodes = 1000
	admin := serving(b)
	installDefaults(b, admin)
	f := &fleet{b: b, client: kubernetes.NewForConfigOrDie(admin), dynamic: dynamic.NewForConfigOrDie(admin)}
	published := explaintest.Machine(b, "a3-ultragpu-8g", "node")
	for i := range nodes {
		f.machine(fmt.Sprintf("node-%d", i), published)
	}
	pid := f.start(admin)
	for b.Loop() {
		f.await("conditions of every node", func(ctx context.Context) (bool, error) {
			list, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "feature.node.kubernetes.io/kernel-version.full"})
			return err == nil && len(list.Items) == nodes, err
		})
		time.Sleep(30 * time.Second) // its first garbage is collected by then
		before := f.writes.Load()
		time.Sleep(time.Minute)
		b.ReportMetric(float64(f.writes.Load()-before), "writes/min")
		b.ReportMetric(resident(b, pid, "VmRSS"), "MB-idle")
		f.wait(20)
		b.ReportMetric(resident(b, pid, "VmHWM"), "MB-most")
		b.ReportMetric(0, "ns/op") // waiting, most of it
	}
}

// fleet is a cluster of machines, and the operator's writes to it but those of its Lease.
type fleet struct {
	b       *testing.B
	client  *kubernetes.Clientset
	dynamic dynamic.Interface
	writes  atomic.Int64
}

func (f *fleet) must(err error) {
	f.b.Helper()
	if err != nil {
		f.b.Fatal(err)
	}
}

func (f *fleet) await(what string, condition wait.ConditionWithContextFunc) {
	f.b.Helper()
	if err := wait.PollUntilContextTimeout(f.b.Context(), time.Second, 5*time.Minute, true, condition); err != nil {
		f.b.Fatalf("%s: %v", what, err)
	}
}

// machine adds a node with slices like those published and a report.
func (f *fleet) machine(name string, published []*resourceapi.ResourceSlice) {
	ctx := f.b.Context()
	node, err := f.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	f.must(err)
	for k, slice := range published {
		slice = slice.DeepCopy()
		slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = fmt.Sprintf("%s-%d", name, k), &name, name
		_, err := f.client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		f.must(err)
	}
	_, err = f.dynamic.Resource(reportsV1alpha1).Create(ctx, reportOf(node), metav1.CreateOptions{})
	f.must(err)
}

// wait has pods wait that fit nowhere, until each was told why.
func (f *fleet) wait(pods int) {
	ctx := f.b.Context()
	for i := range pods {
		name := fmt.Sprintf("trainer-%d", i)
		claim := explaintest.Claim(name, nil, explaintest.Request("nics", "dra.net", 20))
		_, err := f.client.ResourceV1().ResourceClaims("default").Create(ctx, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claim.Spec}, metav1.CreateOptions{})
		f.must(err)
		_, err = f.client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}},
				Containers:     []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "c"}}}}},
			},
		}, metav1.CreateOptions{})
		f.must(err)
	}
	f.await("a word to every pod", func(ctx context.Context) (bool, error) {
		list, err := f.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		told := map[string]bool{}
		for _, e := range list.Items {
			if e.Source.Component == operator.Name {
				told[e.InvolvedObject.Name] = true
			}
		}
		return len(told) == pods, err
	})
}

// start runs the shipped program with its account's rights, by way of a proxy that counts
// what it writes, and returns its process.
func (f *fleet) start(admin *rest.Config) (pid int) {
	f.b.Helper()
	program := filepath.Join(f.b.TempDir(), "plumbline-operator")
	build := exec.CommandContext(f.b.Context(), "go", "build", "-o", program, "plumbline.dev/plumbline/cmd/plumbline-operator")
	if out, err := build.CombinedOutput(); err != nil {
		f.b.Fatalf("build the operator: %v: %s", err, out)
	}
	server, err := url.Parse(admin.Host)
	f.must(err)
	transport, err := rest.TransportFor(&rest.Config{Host: admin.Host, TLSClientConfig: rest.TLSClientConfig{CAFile: admin.CAFile, CAData: admin.CAData}})
	f.must(err)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }}
	counter := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") {
			f.writes.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	f.b.Cleanup(counter.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: counter.Certificate().Raw})
	proxied := &rest.Config{Host: counter.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	kubeconfig := kubeconfigOf(f.b, proxied, &clientcmdapi.AuthInfo{Token: tokenOf(f.b, f.client, deploy.OperatorServiceAccount)})
	socket := filepath.Join(f.b.TempDir(), "socket")
	cmd := exec.CommandContext(context.WithoutCancel(f.b.Context()), program, "--kubeconfig="+kubeconfig, "--namespace="+deploy.Namespace, "--socket="+socket)
	cmd.Stderr = os.Stderr
	f.must(cmd.Start())
	f.b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	f.await("a leader", func(ctx context.Context) (bool, error) {
		answer, err := unixhttp.Ask(ctx, socket, operator.HealthPath, unixhttp.ProbeAtMost)
		return err == nil && answer == "ok: leads\n", nil
	})
	return cmd.Process.Pid
}

// resident is a field of a process' status in MB.
func resident(b *testing.B, pid int, field string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	b.Fatalf("no %s of process %d", field, pid)
	return 0
}

// reportOf is a report as an agent writes it of a machine with one finding.
func reportOf(node *corev1.Node) *unstructured.Unstructured {
	devices := []any{
		map[string]any{"kind": "gpu", "id": "10de:2335", "count": int64(8)}, map[string]any{"kind": "nic", "id": "15b3:101e", "count": int64(8)},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "plumbline.dev/v1alpha1", "kind": "HostReport",
		"metadata": map[string]any{"name": node.Name, "ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "Node", "name": node.Name, "uid": string(node.UID)},
		}},
		"report": map[string]any{
			"changed": "2026-01-01T00:00:00Z", "ok": int64(60), "wrong": int64(1), "unknown": int64(0), "checks": []any{"rdma-devices", "links"},
			"findings": []any{map[string]any{
				"check": "links", "severity": "functional", "verdict": "wrong", "subject": "eth1", "found": "down", "source": "/sys/class/net/eth1/operstate",
			}},
			"profile": map[string]any{"kernel": "6.1.0-test", "devices": devices},
		},
	}}
}
