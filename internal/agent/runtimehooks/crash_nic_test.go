// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// The test runs itself with these, as an agent to be killed.
var (
	crashStep = flag.String("crash-step", "", "the step after which the process kills itself")
	crashStop = flag.Bool("crash-stop", false, "the runtime stops the pod before the kubelet unprepares its claim")
	crashDir  = flag.String("crash-dir", "", "the node's directories")
	crashHost = flag.String("crash-host", "", "path of the host's network namespace")
	crashPod  = flag.String("crash-pod", "", "path of the pod's network namespace")
)

// crashNode is what outlives an agent: a host with a NIC, and directories.
type crashNode struct {
	dir, host, pod string
}

var crashClaim = driver.Claim{
	ClaimRef: driver.ClaimRef{UID: "a-uid", Namespace: "default", Name: "a"},
	Pods:     []driver.PodRef{{UID: "a-pod", Name: "a"}},
	Devices: []driver.Allocation{{
		Request: "r", Pool: "node", Device: "nic0",
		Configs: []driver.Config{{
			// The feature is set while the claim is prepared, the rest in the pod.
			Source: "claim", Raw: []byte(`{"interface":{"name":"net1","mtu":1400},"ethtool":{"features":{"tx-tcp-segmentation":false}}}`),
		}},
	}},
}

func (n crashNode) sandbox() *api.PodSandbox { return podOf("a", n.pod) }

// agent starts one, with the real driver.
func (n crashNode) agent(t *testing.T, onStep func(claims.Step)) (*hooks, *claims.Preparer) {
	t.Helper()
	d, err := netdev.New(netdev.Options{Host: n.host, BootID: "boot", Sys: fstest.MapFS{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	records, err := journal.Open(filepath.Join(n.dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(n.dir, "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	told, err := devicemetadata.Open(filepath.Join(n.dir, "metadata"))
	if err != nil {
		t.Fatal(err)
	}
	r := New("/nowhere")
	t.Cleanup(r.namespaces.closeAll)
	p := &claims.Preparer{
		Driver: claims.Of(d), Journal: records, CDI: specs, BootID: "boot", Machine: func() *model.Machine { return n.machine(t) },
		RuntimeReady: func() error { return nil }, Namespaces: r.namespaces, Status: func(status.Report) {}, Changed: func() {}, OnStep: onStep,
		Guard: "/var/lib/plumbline/bin/plumbline-guard", Metadata: told, Published: func() []resourceapi.Device { return nil },
	}
	p.InPod = func(r driver.Record) ([]guard.NIC, error) {
		moved, err := netdev.Moved(r)
		var nics []guard.NIC
		for _, m := range moved {
			nics = append(nics, *guard.NICOf(m.NIC, m.Alone, m.GivenMAC))
		}
		return nics, err
	}
	p.RDMAInPod = func(r driver.Record) (*guard.RDMA, error) {
		held, err := netdev.HeldNICs(r)
		if err != nil || len(held) == 0 || held[0].RDMA == nil {
			return nil, err
		}
		return &guard.RDMA{Device: held[0].RDMA.Name}, nil
	}
	p.Missing = p.MissingNICs
	if err := p.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := r.hooks(Options{Preparers: []*claims.Preparer{p}})
	h.pods = podsOf(t, podWith("a", "a"))
	return h, p
}

// crashRDMA is hardware that every network namespace sees; the kernel here has none of that
// name. What moves or is made again is killed in the driver's own tests.
var crashRDMA = model.RDMADevice{Name: "plumbcrash0", CharDevices: []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs7"}}

func (n crashNode) machine(t *testing.T) *model.Machine {
	t.Helper()
	var parts model.Machine
	for _, l := range linksOf(t, n.host) {
		if l.Name == "nic0" {
			parts.NICs = append(parts.NICs, model.NIC{
				Interface: &model.Interface{Name: l.Name, Index: l.Index, MAC: l.MAC, Kind: l.Kind, Virtual: true}, RDMA: &crashRDMA,
			})
		}
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func linksOf(t *testing.T, path string) []rtnl.Link {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	conn, err := rtnl.Dial(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	return links
}

// live is a pod's life, as the kubelet and the runtime drive it.
func live(t *testing.T, n crashNode, h *hooks, p *claims.Preparer, stop bool) {
	t.Helper()
	begin(t, n, h, p)
	end(t, n, h, p, stop)
}

func begin(t *testing.T, n crashNode, h *hooks, p *claims.Preparer) {
	t.Helper()
	if _, err := p.Prepare(t.Context(), crashClaim); err != nil {
		t.Fatal(err)
	}
	if err := h.RunPodSandbox(t.Context(), n.sandbox()); err != nil {
		t.Fatal(err)
	}
}

func end(t *testing.T, n crashNode, h *hooks, p *claims.Preparer, stop bool) {
	t.Helper()
	if stop {
		if err := h.StopPodSandbox(t.Context(), n.sandbox()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Unprepare(t.Context(), crashClaim.ClaimRef); err != nil {
		t.Fatal(err)
	}
}

// TestAgentToBeKilled is the process that kills itself.
func TestAgentToBeKilled(t *testing.T) {
	if *crashStep == "" {
		t.Skip("runs as a process of TestKilledAfterEveryStep only")
	}
	n := crashNode{dir: *crashDir, host: *crashHost, pod: *crashPod}
	h, p := n.agent(t, func(s claims.Step) {
		if string(s) == *crashStep {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	live(t, n, h, p, *crashStop)
	t.Fatalf("the step %q never came", *crashStep)
}

// An agent killed after any step leaves what the next one puts right: the host
// is as it was before, or the pod has its NIC with its RDMA device.
func TestKilledAfterEveryStep(t *testing.T) {
	kills := 0
	for _, stop := range []bool{true, false} {
		for _, step := range claims.Steps() {
			t.Run(fmt.Sprintf("%s, stopped first %t", step, stop), func(t *testing.T) { killAfter(t, step, stop) })
			kills++
		}
	}
	t.Logf("%d agents killed, after each of %d steps: 0 NICs lost, 0 pods without theirs, 0 files left", kills, len(claims.Steps()))
}

func killAfter(t *testing.T, step claims.Step, stop bool) {
	host, pod, fabric := hosttest.NewNamespace(t), hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, host, "nic0", fabric, "port0")
	fabric.Run(t, "ip link set port0 up")
	host.Run(t, `
		ip link set lo up
		ip link set nic0 up mtu 1450 alias fast
		ip address add 192.0.2.7/24 dev nic0
		ip route add 198.51.100.0/24 via 192.0.2.1 dev nic0 metric 7`)
	// Paths that the process to be killed can open too.
	reach := func(ns *hosttest.Namespace) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd()) }
	n := crashNode{dir: t.TempDir(), host: reach(host), pod: reach(pod)}
	mac := *n.machine(t).NICs[0].Interface.MAC
	before := lookAt(t, host)

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAgentToBeKilled$", "-crash-step="+string(step),
		fmt.Sprintf("-crash-stop=%t", stop), "-crash-dir="+n.dir, "-crash-host="+n.host, "-crash-pod="+n.pod)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the agent ended with %v, want it killed:\n%s", err, out)
	}

	// The next agent. A pod whose devices were on their way lives, and the
	// kubelet goes on with it; one that was on its way out is gone.
	steps := claims.Steps()
	lives := slices.Index(steps, step) <= slices.Index(steps, claims.StepAttached)
	h, p := n.agent(t, nil)
	var pods []*api.PodSandbox
	if step == claims.StepAttached {
		pods = append(pods, n.sandbox())
	}
	if _, err := h.Synchronize(t.Context(), pods, nil); err != nil {
		t.Fatal(err)
	}
	if lives {
		begin(t, n, h, p)
		held := slices.ContainsFunc(linksOf(t, n.pod), func(l rtnl.Link) bool { return l.MAC != nil && *l.MAC == mac && l.Name == "net1" })
		if !held {
			t.Error("the pod is without its NIC")
		}
		spec, err := filepath.Glob(filepath.Join(n.dir, "cdi", "*"))
		if err != nil || len(spec) != 1 {
			t.Fatalf("CDI files %v, %v; want the claim's", spec, err)
		}
		if text, err := os.ReadFile(spec[0]); err != nil || !strings.Contains(string(text), p.Guard) {
			t.Errorf("%v: the container is not guarded by\n%s", err, text)
		}
		checkRDMA(t, h, n, spec[0])
		files, err := p.Metadata.Mounts(mustGet(t, p))
		if err != nil || len(files) != 1 {
			t.Fatalf("device metadata %v, %v; want the request's", files, err)
		}
		if text, err := os.ReadFile(files[0].Source); err != nil || !strings.Contains(string(text), `"interfaceName": "net1"`) {
			t.Errorf("%v: the container is not told of net1 by\n%s", err, text)
		}
		if missing, err := p.MissingNICs(mustGet(t, p), n.pod); err != nil || len(missing) > 0 {
			t.Errorf("the guard misses %v, %v; want nothing", missing, err)
		}
	}
	end(t, n, h, p, stop)
	if after := lookAt(t, host); after != before {
		t.Errorf("the host (-before +after):\n%s", cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")))
	}
	for _, left := range []string{"journal/dra.net/*.json", "cdi/*", "metadata/dra.net/*"} {
		if files, err := filepath.Glob(filepath.Join(n.dir, left)); err != nil || len(files) > 0 {
			t.Errorf("left behind: %v, %v", files, err)
		}
	}
}

// checkRDMA looks at what a container gets of the NIC's RDMA device: its files by CDI, a
// guard that looks for it, and memory to lock.
func checkRDMA(t *testing.T, h *hooks, n crashNode, spec string) {
	t.Helper()
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append(slices.Clone(crashRDMA.CharDevices), crashRDMA.Name) {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: the container is without %s:\n%s", spec, want, text)
		}
	}
	adjustment, _, err := h.CreateContainer(t.Context(), n.sandbox(), &api.Container{Id: "main", Name: "main"})
	if limits := adjustment.GetRlimits(); err != nil || len(limits) != 1 || limits[0].GetType() != "RLIMIT_MEMLOCK" {
		t.Errorf("limits %v, %v; want one of RLIMIT_MEMLOCK", limits, err)
	}
}

func mustGet(t *testing.T, p *claims.Preparer) driver.Record {
	t.Helper()
	r, err := p.Journal.Get(p.Name(), crashClaim.UID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lookAt is a namespace as an operator sees it, less what the kernel numbers
// anew and what follows the carrier in its own time.
func lookAt(t *testing.T, ns *hosttest.Namespace) string {
	t.Helper()
	text := ns.Run(t, `
		ip -o -d link show
		ip -o -4 address show
		ip -o -4 route show table all`)
	volatile := regexp.MustCompile(`^\d+: |@if\d+|LOWER_UP,?|NO-CARRIER,?|M-DOWN,?|,>| linkdown| state [A-Z]+| qdisc \S+`)
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(volatile.ReplaceAllString(line, "")), " "))
	}
	conn, err := ethtool.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	features, err := conn.Features("nic0")
	if err != nil {
		t.Fatal(err)
	}
	for name, on := range ethtool.Snapshot(features) {
		lines = append(lines, fmt.Sprintf("nic0 %s %t", name, on))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
