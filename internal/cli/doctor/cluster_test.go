// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// run runs the command on a cluster, and returns what it prints and its exit code.
func (a *api) run(t *testing.T, args ...string) (text string, code int, err error) {
	t.Helper()
	text, err = clitest.Run(t, NewCommand(""), "", append(args, "--kubeconfig", a.serve(t))...)
	var exit cmdutil.ExitError
	if errors.As(err, &exit) {
		return text, exit.Code, nil
	}
	return text, 0, err
}

// pool is a cluster with most of what there is to say of one.
func pool(t *testing.T) *api {
	r := recorded(t)
	a := &api{}
	a.add("gpu-0", r["ready"])
	a.add("gpu-1", r["ready"])
	a.add("gpu-2", r["small-packets"])
	a.add("gpu-3", r["port-down"])
	a.add("gpu-4", r["another-kernel"])
	a.add("gpu-5", r["much"])
	a.add("gpu-6", r["not-root"])
	cpu := hosts.Report{Changed: r["ready"].Changed, OK: 2, Checks: []string{"runtime", "numa-balancing"}, Profile: hosts.HostProfile{Kernel: "6.8.0-1007"}}
	a.add("cpu-0", cpu)
	cpu.Profile.Kernel = "6.12.0-3"
	cpu.Profile.Settings = map[string]string{"numa_balancing": "1"}
	a.add("cpu-1", cpu)
	cpu.Profile.Settings = map[string]string{"machine": "GIGABYTE R133"}
	a.add("arm-0", cpu)
	a.without("new-0")
	return a
}

func TestNodes(t *testing.T) {
	for name, args := range map[string][]string{
		"all": {"-A"}, "labels": {"-l", "pool=cpu"}, "one": {"--node", "gpu-3"}, "one-without": {"--node", "new-0"},
	} {
		t.Run(name, func(t *testing.T) {
			text, code, err := pool(t).run(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			clitest.Golden(t, name+".txt", fmt.Sprintf("%sexit code %d\n", text, code))
		})
	}
	t.Run("page by page", func(t *testing.T) {
		a, paged := pool(t), pool(t)
		paged.page = 2
		want, _, _ := a.run(t, "-A")
		got, _, err := paged.run(t, "-A")
		if err != nil || got != want || len(paged.asked) <= len(a.asked) {
			t.Errorf("error %v after %d requests, want what is printed of one page:\n%s", err, len(paged.asked), got)
		}
	})
	for _, format := range []string{"json", "yaml"} {
		t.Run(format, func(t *testing.T) {
			text, code, err := pool(t).run(t, "-A", "-o", format)
			if err != nil || code != exitWrong {
				t.Fatal(code, err)
			}
			clitest.Golden(t, "all."+format, text)
			again, _, _ := pool(t).run(t, "-A", "-o", format)
			if again != text {
				t.Error("another run prints the same in another order")
			}
		})
	}
}

// TestDocumented: what the page shows, the command prints.
func TestDocumented(t *testing.T) {
	r := recorded(t)
	a := &api{}
	for _, name := range []string{"gpu-0", "gpu-1", "gpu-3", "gpu-4"} {
		a.add(name, r["ready"])
	}
	a.add("gpu-2", r["small-packets"])
	a.without("gpu-5")
	text, _, err := a.run(t, "-A")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Documented(t, "hosts.md", "output", "nodes", text)
}

// report is the one finding about the report of a node.
func report(t *testing.T, a *api, node string) (found string, n Node, c Cluster) {
	t.Helper()
	text, _, err := a.run(t, "-A", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	for _, n = range c.Nodes {
		if n.Node != node {
			continue
		}
		for _, f := range n.Findings {
			if f.Check == checkReport {
				if f.Want == "" || f.Fix == "" || f.Verdict != hosts.Unknown {
					t.Errorf("%+v: want that it is unknown, what would be right, and how to get there", f)
				}
				return f.Found, n, c
			}
		}
		return "", n, c
	}
	t.Fatalf("nothing is said of node %s", node)
	return "", Node{}, c
}

func TestReportsThatAreNotBelieved(t *testing.T) {
	broken := recorded(t)["port-down"]
	const agentOfA = 0
	for name, tc := range map[string]struct {
		change   func(a *api)
		want     string
		believed bool
	}{
		"as it should be":       {func(*api) {}, "", true},
		"no agent, no report":   {func(a *api) { a.pods, a.reports = nil, nil }, "no HostReport: no agent of plumbline runs there", false},
		"no report":             {func(a *api) { a.reports = nil }, "no HostReport, though the agent there is ready", false},
		"an agent that is late": {func(a *api) { a.reports, a.pods = nil, nil; a.agent("a", "agent", false) }, "no HostReport: the agent there is not ready", false},
		"an observer":           {func(a *api) { a.reports, a.pods = nil, nil; a.agent("a", "observer", true) }, "no HostReport: the agent there only observes", false},
		"no right to list pods": {
			func(a *api) { a.reports = nil; a.refused = map[string]int{"/pods": http.StatusForbidden} },
			"no HostReport; whether an agent runs there is not known: refused: Forbidden", false,
		},
		"believed without that right": {func(a *api) { a.refused = map[string]int{"/pods": http.StatusForbidden} }, "", true},
		"of a node that was made again": {
			func(a *api) { a.nodes[0].UID = "another" },
			"the HostReport is of a node of that name that is gone, though the agent there is ready", false,
		},
		"older than the boot": {
			func(a *api) { a.nodes[0].Status.NodeInfo.KernelVersion = "6.12.1"; a.pods = nil },
			"the HostReport is older than the node's boot: it is of kernel 6.8.0-1007, the node runs 6.12.1: no agent of plumbline runs there", false,
		},
		"the agent is gone": {
			func(a *api) { a.pods = nil },
			"the HostReport is of 2026-11-20T08:00:00Z, and no agent runs there any more that would renew it", true,
		},
		"the agent is not ready": {
			func(a *api) { a.pods[agentOfA].Status.Phase = corev1.PodPending },
			"the HostReport is of 2026-11-20T08:00:00Z, and the agent there is not ready", true,
		},
		"an agent takes over from another": {func(a *api) { a.agent("a", "agent", false) }, "", true},
		"too many findings": {
			func(a *api) { a.reports[0].Report.Wrong += 7 }, "7 more findings than the report has room for", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{}
			a.add("a", broken)
			tc.change(a)
			found, n, c := report(t, a, "a")
			if found != tc.want {
				t.Errorf("%q, want %q", found, tc.want)
			}
			if (n.Wrong > 0) != tc.believed || (n.Changed != nil) != tc.believed {
				t.Errorf("%d wrong, changed %v: want them to count: %t", n.Wrong, n.Changed, tc.believed)
			}
			if len(c.Gone) > 0 {
				t.Errorf("reports of nodes that are gone: %v", c.Gone)
			}
		})
	}
}

func TestReportOfANodeThatIsGone(t *testing.T) {
	a := &api{}
	a.add("here", recorded(t)["ready"])
	a.add("gone", recorded(t)["port-down"])
	a.nodes = a.nodes[:1]
	text, code, err := a.run(t, "-A")
	if err != nil || code != 0 {
		t.Errorf("exit code %d, error %v: want that what is wrong on a node that is gone does not count", code, err)
	}
	if !strings.Contains(text, "HostReport gone is of a node that is gone, and does not count: kubectl delete hostreport gone") || !strings.Contains(text, "1 node: 1 with nothing wrong") {
		t.Error(text)
	}
	if _, _, err := a.run(t, "--node", "gone"); err == nil || err.Error() != `node "gone" is not in the cluster` {
		t.Error(err)
	}
	if text, _, err = a.run(t, "-l", "pool=here"); err != nil || strings.Contains(text, "is gone") {
		t.Errorf("%v: nobody knows the labels of a node that is gone:\n%s", err, text)
	}
}

// TestHostileReports: whoever can write a report decides on all of its text.
func TestHostileReports(t *testing.T) {
	const evil = "a\x1b[2J\n\u202eb\u009b31m\tc"
	r := hosts.Report{
		Wrong: 1, Changed: recorded(t)["ready"].Changed,
		Findings: []hosts.Finding{{Check: evil, Severity: evil, Verdict: hosts.Wrong, Subject: evil, Found: evil, Source: evil, Want: evil, Fix: evil}, {Verdict: evil}},
		Profile: hosts.HostProfile{
			Kernel: evil, Settings: map[string]string{evil: evil, "machine": evil},
			Devices: []hosts.DeviceProfile{{Kind: evil, ID: evil, Model: evil, Count: -1, Settings: map[string]string{evil: evil}}, {Kind: "gpu", ID: evil, Count: 1}},
		},
	}
	other := *r.DeepCopy()
	other.Profile.Settings[evil], other.Profile.Devices[0].Settings[evil] = evil+"2", evil+"3"
	a := &api{}
	a.add(evil, r)
	a.add(evil+"b", r)
	a.add(evil+"c", other)
	a.add("b", other)
	a.add("gone"+evil, r)
	a.nodes = a.nodes[:4]
	for i := range a.nodes {
		a.nodes[i].Labels[corev1.LabelInstanceTypeStable] = evil
		a.nodes[i].Status.NodeInfo.KernelVersion = ""
	}
	expect := filepath.Join(t.TempDir(), "expect.yaml")
	if err := os.WriteFile(expect, []byte("apiVersion: plumbline.dev/v1alpha1\nkind: HostProfile\nprofile: {kernel: \"6.8\", settings: {machine: NVIDIA}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json", "yaml"} {
		text, code, err := a.run(t, "-A", "--expect", expect, "-o", format)
		if err != nil || code != exitWrong {
			t.Fatalf("%s: exit code %d, error %v", format, code, err)
		}
		if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("%s prints %q", format, text[max(0, at-20):min(len(text), at+20)])
		}
		if strings.Count(text, "\ufffd") == 0 {
			t.Errorf("%s: nothing of it is printed:\n%s", format, text)
		}
	}
}

func TestNodesThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		refused map[string]int
		args    []string
		want    string
	}{
		"no definition":            {map[string]int{"/hostreports": http.StatusNotFound}, []string{"-A"}, "want the CustomResourceDefinition hostreports.plumbline.dev of plumbline's chart"},
		"no definition, one node":  {map[string]int{"/hostreports/gpu-0": http.StatusNotFound}, []string{"--node", "gpu-0"}, "want the CustomResourceDefinition hostreports.plumbline.dev"},
		"may not read reports":     {map[string]int{"/hostreports": http.StatusForbidden}, []string{"-A"}, "want a ClusterRole with get and list of nodes and of hostreports"},
		"may not read nodes":       {map[string]int{"/nodes": http.StatusForbidden}, []string{"-A"}, "list nodes: refused: Forbidden"},
		"pods cannot be listed":    {map[string]int{"/pods": http.StatusBadRequest}, []string{"-A"}, "list the agents in namespace plumbline-system"},
		"no such node":             {nil, []string{"--node", "gpu-9"}, `node "gpu-9" is not in the cluster`},
		"no such labels":           {nil, []string{"-l", "pool=tpu"}, "no node has the labels pool=tpu"},
		"labels that are none":     {nil, []string{"-l", "a in b"}, `-l "a in b"`},
		"learn of nothing":         {nil, []string{"--node", "new-0", "--learn", "x.yaml"}, "--learn: no HostReport: no agent of plumbline runs there"},
		"expect of no file":        {nil, []string{"-A", "--expect", "absent.yaml"}, "--expect: open absent.yaml"},
		"expect of something else": {nil, []string{"-A", "--expect", "api_test.go"}, "--expect api_test.go: "},
	} {
		t.Run(name, func(t *testing.T) {
			a := pool(t)
			a.refused = tc.refused
			text, _, err := a.run(t, tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) || text != "" {
				t.Errorf("error %v, want %q and nothing printed:\n%s", err, tc.want, text)
			}
		})
	}
}

func TestLearnAndExpect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "good.yaml")
	if err := os.WriteFile(file, []byte("what was there before"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, code, err := pool(t).run(t, "--node", "gpu-0", "--learn", file)
	if err != nil || code != 0 || text != file+": the profile of gpu-0, with 2 kinds of devices\n" {
		t.Fatalf("exit code %d, error %v: %s", code, err, text)
	}
	learned, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Documented(t, "hosts.md", "output", "profile", string(learned))
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, error %v: want the profile alone", left, err)
	}
	for node, want := range map[string]int{"gpu-0": 0, "gpu-4": exitWrong} {
		text, code, err := pool(t).run(t, "--node", node, "--expect", file, "--all")
		if err != nil || code != want {
			t.Errorf("%s: exit code %d, error %v, want %d", node, code, err, want)
		}
		clitest.Golden(t, "expect-"+node+".txt", text)
	}
	text, code, err = pool(t).run(t, "--node", "gpu-3", "--learn", file)
	if err != nil || code != 0 || !strings.Contains(text, "findings are wrong there") {
		t.Errorf("exit code %d, error %v: want that learning from a bad host is told: %s", code, err, text)
	}
	absent := filepath.Join(t.TempDir(), "absent", "good.yaml")
	if _, _, err := pool(t).run(t, "--node", "gpu-0", "--learn", absent); err == nil || !strings.Contains(err.Error(), "--learn: write "+absent) {
		t.Error(err)
	}
}

func TestFlagsThatDoNotGoTogether(t *testing.T) {
	for _, args := range []string{
		"-A -l a=b", "-A --node a", "--node a -l a=b", "--node=", "-l=", "-A --root /host", "--learn a --expect b", "--learn=", "--expect=",
		"-A --learn a", "-l a=b --learn a", "--learn a -o json", "-A -o xml", "-A gpu-0",
	} {
		a := pool(t)
		_, _, err := a.run(t, strings.Fields(args)...)
		if !errors.As(err, new(cmdutil.UsageError)) {
			t.Errorf("doctor %s: %v, want that the command line is wrong", args, err)
		}
		if len(a.asked) > 0 {
			t.Errorf("doctor %s: asked %v", args, a.asked)
		}
	}
}

// TestNothingIsWritten: doctor asks, and changes nothing of a cluster.
func TestNothingIsWritten(t *testing.T) {
	a := pool(t)
	if _, _, err := a.run(t, "-A"); err != nil {
		t.Fatal(err)
	}
	for _, request := range a.asked {
		if !strings.HasPrefix(request, http.MethodGet+" ") {
			t.Error(request)
		}
	}
	if len(a.asked) != 4 {
		t.Errorf("asked %v, want nodes, reports, agents and slices", a.asked)
	}
}

// BenchmarkDoctorThousandNodes is doctor -A of a cluster with a thousand nodes, with
// reports of ready and broken hosts, from the request to the last line.
func BenchmarkDoctorThousandNodes(b *testing.B) {
	a := &api{}
	r := recorded(b)
	names := []string{"ready", "ready", "ready", "small-packets", "port-down", "not-root", "another-kernel", "much"}
	for i := range 1000 {
		a.add(fmt.Sprintf("gpu-%d", i), r[names[i%len(names)]])
	}
	kubeconfig := a.serve(b)
	for b.Loop() {
		var out bytes.Buffer
		cmd := NewCommand("")
		cmd.SetArgs([]string{"-A", "--kubeconfig", kubeconfig})
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(context.Background()); !errors.As(err, new(cmdutil.ExitError)) {
			b.Fatal(err)
		}
		if !strings.Contains(out.String(), "1000 nodes: 500 with nothing wrong") {
			b.Fatal(out.String()[max(0, out.Len()-300):])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
}
