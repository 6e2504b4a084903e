// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/published"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	clitest.Golden(t, name, got)
}

// clusterObjects are four machines and who holds what of them: an A3 Ultra with
// the mission's claims, another with a claim that strands, an Azure node whose
// devices pair by NUMA node, and a TPU node.
func clusterObjects(t *testing.T) []runtime.Object {
	t.Helper()
	objects := missionObjects(t)
	nodes := map[string]string{
		testNode: "", "gpu-node-2": "a3-ultragpu-8g", "azure-0": "azure-nd96isr-h100-v5", "tpu-0": "gcp-ct6e-standard-4t",
	}
	for node, shipped := range nodes {
		labels := map[string]string{"kubernetes.io/hostname": node}
		if strings.HasPrefix(node, "gpu-") {
			labels["pool"] = "h200"
		}
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})
		if shipped == "" {
			continue // among the mission's
		}
		file, err := machine.Open(shipped)
		if err != nil {
			t.Fatal(err)
		}
		published, problems, err := nodeslices.OfFile(context.Background(), file, nodeslices.Options{Node: node})
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		for i := range published {
			objects = append(objects, &published[i])
		}
	}
	across := claimOf("train-3", []string{"train-3-0"}, result(slicecodec.DriverGPU, "gpu-2"), result(slicecodec.DriverNet, "pci-0000-c6-00-0"))
	for i := range across.Status.Allocation.Devices.Results {
		across.Status.Allocation.Devices.Results[i].Pool = "gpu-node-2"
	}
	return append(objects, across)
}

func showNodes(t *testing.T, format string, names ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	o := nodesOptions{output: format}
	if err := o.show(context.Background(), fake.NewClientset(clusterObjects(t)...), names, &out, &errOut); err != nil {
		t.Fatal(err)
	}
	if errOut.Len() > 0 {
		t.Error(errOut.String())
	}
	return out.String()
}

func TestNodes(t *testing.T) {
	for format, file := range map[string]string{
		"text": "nodes.txt", "wide": "nodes-wide.txt", "json": "nodes.json", "svg": "nodes.svg",
	} {
		t.Run(format, func(t *testing.T) {
			out := showNodes(t, format)
			checkFormat(t, format, out)
			golden(t, file, out)
		})
	}
}

func TestNodesByName(t *testing.T) {
	var c topoview.Cluster
	if err := json.Unmarshal([]byte(showNodes(t, "json", "gpu-node-2")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 1 || c.Nodes[0].Name != "gpu-node-2" || len(c.Claims) == 0 || c.Claims[0].Name != "elsewhere" {
		t.Errorf("%+v, want gpu-node-2 with its claims", c)
	}
}

func TestNodesByLabel(t *testing.T) {
	client := fake.NewClientset(clusterObjects(t)...)
	var out, errOut bytes.Buffer
	o := nodesOptions{output: "text", labels: "pool=h200"}
	if err := o.show(context.Background(), client, nil, &out, &errOut); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "gpu-node-2") || strings.Contains(out.String(), "tpu-0") {
		t.Errorf("want the nodes of pool h200:\n%s", out.String())
	}
	o.labels = "pool=none"
	if err := o.show(context.Background(), client, nil, &out, &errOut); err == nil || err.Error() != "no node has the labels pool=none" {
		t.Errorf("%v", err)
	}
}

func TestNodesThatAreNotThere(t *testing.T) {
	client := fake.NewClientset(clusterObjects(t)...)
	var out, errOut bytes.Buffer
	o := nodesOptions{output: "text"}
	if err := o.show(context.Background(), client, []string{"absent"}, &out, &errOut); err == nil || err.Error() != `node "absent" is not in the cluster` {
		t.Errorf("%v", err)
	}
	if err := o.show(context.Background(), client, []string{"absent", testNode}, &out, &errOut); err != nil ||
		errOut.String() != "left out: node absent has no ResourceSlice of GPUs, NICs or CPUs\n" || !strings.Contains(out.String(), testNode) {
		t.Errorf("%v\n%s%s", err, &out, &errOut)
	}
	out.Reset()
	if err := o.show(context.Background(), fake.NewClientset(), nil, &out, &errOut); err != nil || !strings.HasPrefix(out.String(), "no node publishes devices") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// What a claim takes is seen without asking again.
func TestWatchNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := fake.NewClientset(publishedSlices(t)...)
	changes, err := follow(ctx, client, "")
	if err != nil {
		t.Fatal(err)
	}
	if c := (<-changes).Overview(nil); c.Capacity.Pairs.Free != 8 || !c.HoldersKnown {
		t.Fatalf("%+v, want 8 pairs", c.Capacity)
	}
	claim := claimOf("train", nil, result(slicecodec.DriverGPU, "gpu-0"), result(slicecodec.DriverNet, "pci-0000-91-00-0"))
	if _, err := client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for now := range changes {
		if c := now.Overview(nil); c.Capacity.Pairs.Free == 7 && len(c.Claims) == 1 {
			return
		}
	}
	t.Error("the claim was not seen")
}

// A picture is shown when it differs from the last, and only then.
func TestShowAll(t *testing.T) {
	views := make(chan string, 4)
	for _, v := range []string{"a\n", "a\n", "b\n"} {
		views <- v
	}
	close(views)
	var out bytes.Buffer
	err := cmdutil.ShowAll(context.Background(), &out, "yaml", views, func(w io.Writer, v string) error {
		_, err := io.WriteString(w, v)
		return err
	})
	if want := "a\n---\nb\n"; err != nil || out.String() != want {
		t.Errorf("%v, %q, want %q", err, out.String(), want)
	}
}

// Five thousand nodes are summed up, each claim at its node.
func TestManyNodes(t *testing.T) {
	const n = 5000
	var o published.Cluster
	for i := range n {
		node := "node-" + strings.Repeat("0", 4-len(strconv.Itoa(i))) + strconv.Itoa(i)
		o.Slices = append(o.Slices, resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: slicecodec.DriverGPU, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				slicecodec.AttrPCIBusID: {StringValue: ptr.To("0000:8f:00.0")},
			}}},
		}})
		claim := claimOf("c", nil, result(slicecodec.DriverGPU, "gpu-0"))
		claim.Name, claim.Status.Allocation.Devices.Results[0].Pool = node, node
		o.Claims = append(o.Claims, *claim)
	}
	c := o.Overview(nil)
	if len(c.Nodes) != n || len(c.Claims) != n || c.Capacity.GPUs != (topoview.Count{Free: 0, Total: n}) {
		t.Errorf("%d nodes, %d claims, GPUs %+v", len(c.Nodes), len(c.Claims), c.Capacity.GPUs)
	}
}
