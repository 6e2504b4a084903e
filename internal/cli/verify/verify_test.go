// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

const page = "verify.md"

// cluster is one node with pods, an agent that looks at them, and the API server.
type cluster struct {
	node     *verifytest.Node
	kernel   verify.Kernel
	pods     []*verifytest.Pod
	promised []expect.Pod
	objects  []runtime.Object
	asked    []string
	fails    error
}

func newCluster(t *testing.T) *cluster {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	c := &cluster{node: n, kernel: n.Reader(t)}
	c.objects = []runtime.Object{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "plumbline-system", Name: "plumbline-agent-x",
			Labels: map[string]string{"app.kubernetes.io/name": "plumbline", "app.kubernetes.io/component": "agent"},
		},
		Spec: corev1.PodSpec{NodeName: n.Name}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}}
	return c
}

func (c *cluster) start(t *testing.T, name string, gpus, nics []int, cpus cpuset.CPUSet) *verifytest.Pod {
	t.Helper()
	p := c.node.NewPod(name)
	allocated := c.node.Give(p, verifytest.Ours(), gpus, nics, cpus)
	c.node.Write(t, p)
	c.promised, c.objects = append(c.promised, allocated.Expect()), append(c.objects, allocated.Pod)
	c.pods = append(c.pods, p)
	return p
}

// time passes on the node: the agent has looked, and every thread ran since.
func (c *cluster) time(t *testing.T) {
	t.Helper()
	verify.Check(t.Context(), c.node.Machine, c.kernel, c.promised, false)
	for _, p := range c.pods {
		p.Run()
		c.node.Tick(t, p)
	}
}

// execute is what the agent answers.
func (c *cluster) execute(ctx context.Context, namespace, pod string, command []string) ([]byte, error) {
	c.asked = append(c.asked, namespace+"/"+pod+" "+strings.Join(command, " "))
	if c.fails != nil {
		return nil, c.fails
	}
	report := verify.NewReport(c.node.Machine, c.node.Name, time.Now(), verify.Check(ctx, c.node.Machine, c.kernel, c.promised, true))
	return json.Marshal(report)
}

// run is the command behind its flags.
func (c *cluster) run(t *testing.T, output string, which selection) (string, error) {
	t.Helper()
	c.time(t)
	client := fake.NewClientset(c.objects...)
	report, err := look(t.Context(), client, agents{cmdutil.Agents{Client: client, Namespace: "plumbline-system", Execute: c.execute}}, which)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	o := options{output: output}
	if err := o.write(&out, report, which); err != nil {
		t.Fatal(err)
	}
	return out.String(), exitOf(report)
}

func code(err error) int {
	var exit cmdutil.ExitError
	errors.As(err, &exit)
	return exit.Code
}

// What the documentation shows, the command prints.
func TestDocumentedOutput(t *testing.T) {
	c := newCluster(t)
	c.start(t, "train-0", []int{0}, []int{0}, cpuset.New(4, 5, 6, 7))
	train1 := c.start(t, "train-1", []int{2}, []int{2}, cpuset.New(8, 9, 10, 11))
	train1.Pin(cpuset.New(60, 61, 62, 63), cpuset.New(0, 1))
	train1.Files["/dev/nvidia5"] = c.node.GPUNumber(5)
	c.node.Write(t, train1)
	c.start(t, "train-3", []int{3}, []int{7}, cpuset.New(12, 13, 14, 15))
	ending := c.start(t, "train-2", []int{4}, nil, cpuset.New())
	c.pods = c.pods[:3]
	c.node.Remove(t, ending)
	for name, test := range map[string]struct {
		which selection
		code  int
	}{
		"aligned":    {selection{namespace: "default", names: []string{"train-0"}}, 0},
		"misaligned": {selection{namespace: "default", names: []string{"train-1"}}, exitMisaligned},
		"far":        {selection{namespace: "default", names: []string{"train-3"}}, 0},
		"all":        {selection{}, exitMisaligned},
	} {
		out, err := c.run(t, "text", test.which)
		if code(err) != test.code {
			t.Errorf("%s: %v, want exit code %d", name, err, test.code)
		}
		clitest.Documented(t, page, "output", name, out)
	}
}

func TestFormats(t *testing.T) {
	c := newCluster(t)
	c.start(t, "train-0", []int{0}, []int{0}, cpuset.New(4, 5))
	out, err := c.run(t, "json", selection{namespace: "default", names: []string{"train-0"}})
	var report verify.Report
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || report.Kind != verify.Kind || report.Pods[0].Verdict != "Aligned" || len(report.Pods[0].Pairs) != 3 {
		t.Errorf("%v\n%s", err, out)
	}
	if p := report.Pods[0]; p.AsClaimed.Status != "True" || p.Aligned.Status != "True" || p.Aligned.Reason != "Nearest" || p.Pairs[0].Nearest != "PIX" || p.Differs != nil {
		t.Errorf("%+v", p)
	}
	if out, err := c.run(t, "yaml", selection{}); err != nil || !strings.Contains(out, "\n  verdict: Aligned\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if want := []string{
		"plumbline-system/plumbline-agent-x plumbline-agent verify --namespace=default --pod=train-0",
		"plumbline-system/plumbline-agent-x plumbline-agent verify --pod=train-0",
	}; !slices.Equal(c.asked, want) {
		t.Errorf("asked %q, want %q", c.asked, want)
	}
}

// Where nobody can look, nothing is said to be aligned, and the exit code tells.
func TestUnknown(t *testing.T) {
	tests := map[string]struct {
		change func(c *cluster)
		says   string
	}{
		"no agent":           {func(c *cluster) { c.objects = c.objects[1:] }, "no agent of plumbline runs on node n1"},
		"exec fails":         {func(c *cluster) { c.fails = errors.New("container\nnot found") }, "container; not found"},
		"agent does not see": {func(c *cluster) { c.promised = nil }, "the node's agent does not know it yet"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.start(t, "train-0", []int{0}, nil, cpuset.New())
			test.change(c)
			out, err := c.run(t, "text", selection{namespace: "default", names: []string{"train-0"}})
			if code(err) != exitUnknown || !strings.Contains(out, test.says) || !strings.Contains(out, "train-0 on n1: Unknown") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestPodsThatCannotBeVerified(t *testing.T) {
	c := newCluster(t)
	c.objects = append(c.objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"}})
	for name, says := range map[string]string{"plain": "has no claim", "nobody": "not found"} {
		if _, err := c.run(t, "text", selection{namespace: "default", names: []string{name}}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	for want, which := range map[string]selection{
		"no running pod with a claim\n":                               {},
		"no running pod with a claim in namespace default\n":          {namespace: "default"},
		"no running pod with a claim in namespace other on node n1\n": {namespace: "other", node: "n1"},
	} {
		c.objects = append(c.objects[:2], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		if out, err := c.run(t, "text", which); err != nil || out != want {
			t.Errorf("%v: %q, want %q", err, out, want)
		}
	}
	if _, err := c.run(t, "text", selection{node: "n2"}); err == nil || !strings.Contains(err.Error(), `node n2: nodes "n2" not found`) {
		t.Errorf("a node that is not there: %v", err)
	}
	for _, arg := range []string{"claim/x", "pod/", "/x"} {
		if _, err := podNames([]string{arg}); !errors.As(err, new(cmdutil.UsageError)) {
			t.Errorf("%q: %v", arg, err)
		}
	}
}

// Who names a node asks for all that is on it.
func TestNamespace(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		all        bool
		node, flag string
		names      []string
		want       string
	}{
		{want: "default"},
		{flag: "team", want: "team"},
		{all: true, want: ""},
		{node: "n1", want: ""},
		{node: "n1", flag: "team", want: "team"},
		{node: "n1", names: []string{"train-0"}, want: "default"},
	} {
		o := options{cluster: cmdutil.NewNamespacedFlags(), all: test.all, node: test.node}
		*o.cluster.Namespace, *o.cluster.KubeConfig = test.flag, kubeconfig
		got, err := o.namespace(test.names)
		if err != nil || got != test.want {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

// Names that a pod chose do not play with the terminal.
func TestHostileNames(t *testing.T) {
	c := newCluster(t)
	p := c.start(t, "train-0", []int{0}, []int{0}, cpuset.New())
	p.Files["/dev/\x1b]0;owned\x07"] = c.node.GPUNumber(5)
	c.node.Write(t, p)
	out, err := c.run(t, "text", selection{namespace: "default", names: []string{"train-0"}})
	if code(err) != exitMisaligned || strings.ContainsAny(out, "\x1b\x07") {
		t.Errorf("%v\n%q", err, out)
	}
}
