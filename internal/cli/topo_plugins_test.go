// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/topoview"
)

// pluginNode is the node of publishedSlices.
const pluginNode = testNode

// pluginObjects are a node with a device plugin, its agent, and pods that asked for GPUs.
func pluginObjects(capacity corev1.ResourceList) []runtime.Object {
	on := func(namespace, name string, phase corev1.PodPhase, limits corev1.ResourceList) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PodSpec{NodeName: pluginNode, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	two := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	agent := on(cmdutil.AgentNamespace, "plumbline-agent-x", corev1.PodRunning, nil)
	agent.Labels = map[string]string{"app.kubernetes.io/name": "plumbline", "app.kubernetes.io/component": "agent"}
	claimed := on("team", "claimed", corev1.PodRunning, two)
	claimed.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "nvidia.com/gpu"}},
	}
	return []runtime.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pluginNode}, Status: corev1.NodeStatus{Capacity: capacity}},
		agent, on("team", "train-0", corev1.PodRunning, two), on("team", "done", corev1.PodSucceeded, two), claimed,
		on("team", "web", corev1.PodRunning, corev1.ResourceList{"cpu": resource.MustParse("2")}),
	}
}

// pluginSource asks an agent that answers with a text.
func pluginSource(t *testing.T, objects []runtime.Object, answer string, fails error) (nodeSource, *[]string) {
	t.Helper()
	var asked []string
	client := fake.NewClientset(objects...)
	return nodeSource{client: client, node: pluginNode, agents: cmdutil.Agents{
		Client: client, Namespace: cmdutil.AgentNamespace, Execute: func(_ context.Context, namespace, pod string, command []string) ([]byte, error) {
			asked = append(asked, namespace+"/"+pod+" "+strings.Join(command, " "))
			return []byte(answer), fails
		},
	}}, &asked
}

func pluginAnswer(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(deviceplugin.Report{APIVersion: deviceplugin.APIVersion, Kind: deviceplugin.Kind, Node: pluginNode, Devices: []deviceplugin.Device{{
		Resource: "nvidia.com/gpu", ID: "GPU-1", Held: &deviceplugin.Holder{Namespace: "team", Pod: "train-0", Container: "main"},
		Function: &deviceplugin.Function{
			Address: "0000:8f:00.0", Root: "pci0000:8c", RootPublished: true, NUMANode: ptr.To(0), Class: 0x030200, Vendor: 0x10de, Product: "GH100 [H200 SXM 141GB]",
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var eightGPUs = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("96")}

// A node that publishes nothing is drawn all the same with what its device plugin gave.
func TestTopoOfADevicePlugin(t *testing.T) {
	s, asked := pluginSource(t, pluginObjects(eightGPUs), pluginAnswer(t), nil)
	v, err := s.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := topoview.Text(&out, v.Topology(), topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0000:8f:00.0  GH100 [H200 SXM 141GB]  [A] team/train-0 · nvidia.com/gpu of a device plugin", "[A] team/train-0 · nvidia.com/gpu · holds 0000:8f:00.0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if want := "plumbline-system/plumbline-agent-x plumbline-agent device-plugins"; len(*asked) != 1 || (*asked)[0] != want {
		t.Errorf("asked %q, want %q", *asked, want)
	}
}

// Where it cannot be told who has which GPU, the reason is said, and who asked for some.
func TestTopoWithoutTheAgent(t *testing.T) {
	withoutAgent := append(pluginObjects(eightGPUs)[:1:1], pluginObjects(eightGPUs)[2:]...)
	for name, tt := range map[string]struct {
		objects []runtime.Object
		answer  string
		fails   error
		says    string
	}{
		"no agent":        {withoutAgent, "", nil, "no agent of plumbline runs on node gpu-node-1"},
		"no socket":       {pluginObjects(eightGPUs), "", errors.New("kubelet.sock: no such file or directory"), "kubelet.sock: no such file or directory"},
		"an older agent":  {pluginObjects(eightGPUs), "", errors.New(`unknown command "device-plugins"`), `unknown command "device-plugins"`},
		"another answer":  {pluginObjects(eightGPUs), "ok", nil, "read the answer of the agent on node gpu-node-1"},
		"a wrong address": {pluginObjects(eightGPUs), `{"devices":[{"resource":"nvidia.com/gpu","pciFunction":{"address":"x"}}]}`, nil, "read what device plugins gave"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := pluginSource(t, append(tt.objects, publishedSlices(t)...), tt.answer, tt.fails)
			v, err := s.load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(v.Topology().Notes, "\n")
			for _, want := range []string{"a device plugin offers 8 nvidia.com/gpu, and which pod has which is not known: ", tt.says, "; pods that asked for some: team/train-0 (2 nvidia.com/gpu)"} {
				if !strings.Contains(notes, want) {
					t.Errorf("no %q in\n%s", want, notes)
				}
			}
			for _, other := range []string{"team/done", "team/claimed", "team/web"} {
				if strings.Contains(notes, other) {
					t.Errorf("%s has nothing of a device plugin:\n%s", other, notes)
				}
			}
		})
	}
}

func TestTopoAsksNoAgentInVain(t *testing.T) {
	s, asked := pluginSource(t, append(pluginObjects(corev1.ResourceList{"cpu": resource.MustParse("96")}), publishedSlices(t)...), "", errors.New("asked in vain"))
	v, err := s.load(t.Context())
	if err != nil || len(*asked) > 0 || strings.Contains(strings.Join(v.Options.Notes, "\n"), "device plugin") {
		t.Errorf("%v, asked %q, notes %q", err, *asked, v.Options.Notes)
	}
	bare, _ := pluginSource(t, pluginObjects(nil), "", nil)
	if _, err := bare.load(t.Context()); err == nil || !strings.Contains(err.Error(), "has no ResourceSlice") {
		t.Errorf("%v, want nothing to draw", err)
	}
	forbidden, _ := pluginSource(t, publishedSlices(t), "", nil)
	forbidden.client.(*fake.Clientset).PrependReactor("get", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("nodes is forbidden")
	})
	v, err = forbidden.load(t.Context())
	if err != nil || !strings.Contains(strings.Join(v.Options.Notes, "\n"), "whether a device plugin gives GPUs of the node away is not known: nodes is forbidden") {
		t.Errorf("%v, notes %q", err, v.Options.Notes)
	}
}
