// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/run"
	"plumbline.dev/plumbline/internal/bench/stats"
)

const namespace = "default"

// cluster is a cluster in which pods start at once, and a tool that measures what it is told.
type cluster struct {
	*fake.Clientset

	mu sync.Mutex
	// bytes are those of each pod's interfaces.
	bytes map[string]map[string]int64
	// calls are runs of the tool so far.
	calls int
	// status is that of pods as they are made.
	status corev1.PodStatus
	// sameNIC has every request given the same one; silent has nobody say addresses.
	sameNIC, silent bool
	// untold has nobody say which CPUs a claim has.
	untold bool
	// tool prints what a run gives; nil is by the arm.
	tool func(call int) (string, error)
	// way is the interface that the bytes take; nil is the arm's.
	way func(call int) string
	// asClaimed is verify's answer; nil is yes.
	asClaimed func(call int) string
	// step is told of everything that is asked.
	step func()
	// patience is the runner's.
	patience time.Duration
	// repeats is how often the tool runs for a value; 0 is once.
	repeats int
	// perftest or job is in the pods; nil is iperf3.
	perftest *perftest
	job      *job
}

func newCluster() *cluster {
	c := &cluster{Clientset: fake.NewClientset(), bytes: map[string]map[string]int64{}, step: func() {}, patience: 100 * time.Millisecond}
	c.status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	c.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.step()
		create, made := action.(clienttesting.CreateAction)
		if !made {
			return false, nil, nil
		}
		switch o := create.GetObject().(type) {
		case *corev1.Pod:
			server := strings.HasSuffix(o.Name, "server")
			o.UID, o.Status = types.UID(o.Name), c.status
			o.Spec.NodeName = "n1"
			o.Status.PodIPs = []corev1.PodIP{{IP: map[bool]string{true: "10.88.0.1", false: "10.88.0.2"}[server]}}
		case *resourceapi.ResourceClaim:
			c.allocate(o)
		}
		return false, nil, nil
	})
	return c
}

// allocate gives a claim NICs, and says their addresses.
func (c *cluster) allocate(claim *resourceapi.ResourceClaim) {
	side := map[bool]int{true: 1, false: 2}[strings.HasSuffix(claim.Name, "server")]
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for i, r := range claim.Spec.Devices.Requests {
		if r.Exactly.DeviceClassName == "dra.cpu" {
			device := "cpus-of-" + r.Name
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Request: r.Name, Driver: "dra.cpu", Pool: "n1", Device: device})
			if !c.untold {
				claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{
					Driver: "dra.cpu", Pool: "n1", Device: device, Data: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"cpus": "%d"}`, i)},
				})
			}
			continue
		}
		device := fmt.Sprintf("nic%d%d", i, side)
		if c.sameNIC {
			device = "nic"
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: r.Name, Driver: "dra.net", Pool: "n1", Device: device})
		status := resourceapi.AllocatedDeviceStatus{Driver: "dra.net", Pool: "n1", Device: device}
		if !c.silent {
			status.NetworkData = &resourceapi.NetworkDeviceData{
				InterfaceName: fmt.Sprintf("bench%d", i), IPs: []string{"fe80::1/64", fmt.Sprintf("192.168.20%d.%d/24", i, side)},
			}
		}
		claim.Status.Devices = append(claim.Status.Devices, status)
	}
}

// rates are what each arm's server gets, by the beginning of its address.
var rates = map[string]float64{"192.168.200.": 10e9, "192.168.201.": 5e9, "10.88.0.": 8e9}

func (c *cluster) execute(ctx context.Context, _, pod string, command []string) ([]byte, error) {
	c.step()
	if c.perftest != nil {
		return c.perftest.execute(ctx, pod, command)
	}
	if c.job != nil {
		return c.executeJob(ctx, pod, command)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if command[0] == "cat" {
		text := "Inter-| head\n face | head\n"
		for name, n := range map[string]int64{"lo": 0, "eth0": 0, "bench0": 0, "bench1": 0} {
			n += c.bytes[pod][name]
			text += fmt.Sprintf("%6s: %d 1 0 0 0 0 0 0 %[2]d 1 0 0 0 0 0 0\n", name, n)
		}
		return []byte(text), nil
	}
	c.calls++
	link, rate := "", 0.0
	for prefix, r := range rates {
		if strings.HasPrefix(command[2], prefix) {
			rate, link = r, map[string]string{"192.168.200.": "bench0", "192.168.201.": "bench1", "10.88.0.": "eth0"}[prefix]
		}
	}
	if c.way != nil {
		link = c.way(c.calls)
	}
	for _, name := range []string{pod, strings.Replace(pod, "client", "server", 1)} {
		if c.bytes[name] == nil {
			c.bytes[name] = map[string]int64{}
		}
		c.bytes[name][link] += int64(rate / 8)
	}
	if c.tool != nil {
		if text, err := c.tool(c.calls); text != "" || err != nil {
			return []byte(text), err
		}
	}
	return []byte(output(rate)), nil
}

func output(rate float64) string {
	return fmt.Sprintf(`{"start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 1}},
		"end": {"sum_sent": {"seconds": 1, "bytes": %[2]f, "bits_per_second": %[1]f, "retransmits": 3},
		"sum_received": {"seconds": 1, "bytes": %[2]f, "bits_per_second": %[1]f}}}`, rate, rate/8)
}

func (c *cluster) verify(ctx context.Context, pod *corev1.Pod) (report.Verified, error) {
	c.step()
	if ctx.Err() != nil {
		return report.Verified{}, ctx.Err()
	}
	v := report.Verified{AsClaimed: "True", Aligned: "True"}
	if c.asClaimed != nil {
		v.AsClaimed, v.Message = c.asClaimed(c.calls), "the kernel says otherwise"
	}
	return v, nil
}

// measure runs tcp.
func (c *cluster) measure(t *testing.T, ctx context.Context, against string) (*report.Report, string, error) {
	t.Helper()
	o := plan.Options{Run: "plumbline-bench-x", Namespace: namespace, Image: "bench", Against: against, Seconds: 1}
	if against != plan.PodNetwork {
		o.Addresses = []netip.Prefix{netip.MustParsePrefix("192.168.200.0/24"), netip.MustParsePrefix("192.168.201.0/24")}
	}
	p, err := plan.NewTCP(o)
	if err != nil {
		t.Fatal(err)
	}
	return c.carryOut(ctx, p)
}

// carryOut runs a plan.
func (c *cluster) carryOut(ctx context.Context, p *plan.Plan) (*report.Report, string, error) {
	var told strings.Builder
	now := time.Now()
	runner := run.Runner{
		Client: c, Execute: c.execute, Verify: c.verify, HostPackets: c.hostPackets, Progress: func(line string) { told.WriteString(line + "\n") },
		Now: func() time.Time { return now }, Seed: 1, Poll: time.Millisecond, Patience: c.patience,
	}
	r, err := runner.Run(ctx, p, run.Settings{Pairs: 6, Repeats: max(c.repeats, 1)})
	return r, told.String(), err
}

// left are the objects that there are.
func (c *cluster) left(t *testing.T) []string {
	t.Helper()
	c.step = func() {}
	ctx := context.WithoutCancel(t.Context())
	var names []string
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range pods.Items {
		names = append(names, o.Name)
	}
	claims, err := c.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range claims.Items {
		names = append(names, o.Name)
	}
	jobs, err := c.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range jobs.Items {
		names = append(names, o.Name)
	}
	return names
}

func TestRun(t *testing.T) {
	for against, ratio := range map[string]float64{plan.PodNetwork: 0.8, "true": 0.5} {
		c := newCluster()
		r, told, err := c.measure(t, t.Context(), against)
		if err != nil {
			t.Fatal(against, err)
		}
		if r.Verdict.Answer != stats.Lower || r.Verdict.Ratio != ratio || r.Verdict.Turns != 6 || r.ThrownOut != 0 {
			t.Errorf("%s: %+v, want lower by %v in 6 turns", against, r.Verdict, ratio)
		}
		var order strings.Builder
		for _, one := range r.Runs {
			order.WriteString(string(one.Arm))
		}
		if want := "ABBAABBAABBAAB"; order.String() != want {
			t.Errorf("%s: order %s, want %s", against, order.String(), want)
		}
		if first := r.Runs[0]; first.Turn != 0 || *first.Retransmits != 3 || len(first.Before) != 2 || first.After[1].Role != "client" {
			t.Errorf("%s: first run %+v", against, first)
		}
		if r.Versions.Tool != "iperf 3.12" || len(r.Pods) != 2 || r.Pods[0].Node != "n1" {
			t.Errorf("%s: versions %+v, pods %+v", against, r.Versions, r.Pods)
		}
		if !strings.Contains(told, "turn 6 of 6: nic 10.00 Gbit/s") {
			t.Errorf("%s: told %s", against, told)
		}
		if left := c.left(t); len(left) > 0 {
			t.Errorf("%s: left %v", against, left)
		}
	}
}

// Each fault ends in an error of its own, and leaves nothing.
func TestRunFails(t *testing.T) {
	failed := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 128, Message: message}},
		}}}
	}
	always := func(text string) func(int) (string, error) {
		return func(int) (string, error) { return text, nil }
	}
	for name, f := range map[string]struct {
		against string
		fault   func(*cluster)
		want    error
		said    string
	}{
		"no tool in the image": {fault: func(c *cluster) {
			c.status = failed("StartError", `exec: "iperf3": executable file not found in $PATH`)
		}, want: run.ErrTool, said: "image bench"},
		"no cat in the image": {fault: func(c *cluster) {
			c.step = func() {}
			c.tool = func(int) (string, error) { return "", errors.New(`exec: "iperf3": executable file not found in $PATH`) }
		}, want: run.ErrTool, said: "executable file not found"},
		"a pod that ends": {fault: func(c *cluster) { c.status = failed("Error", "out of files") }, want: run.ErrPod, said: "out of files"},
		"a pod that waits": {fault: func(c *cluster) {
			c.status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: cannot allocate all claims",
			}}}
		}, want: run.ErrPod, said: "cannot allocate all claims; \"plumbline explain pod/plumbline-bench-x-server\" says more"},
		"the same NIC twice": {against: "true", fault: func(c *cluster) { c.sameNIC = true }, want: plan.ErrUndeclared, said: "the same NIC"},
		"no addresses":       {fault: func(c *cluster) { c.silent = true }, said: "--addresses gives claimed NICs a subnet"},
		"never as claimed": {fault: func(c *cluster) {
			c.asClaimed = func(int) string { return "Unknown" }
		}, said: "the pods are not as claimed"},
		"cut":             {fault: func(c *cluster) { c.tool = always(output(1e9)[:80]) }, want: run.ErrOutput, said: "the output is cut"},
		"nothing printed": {fault: func(c *cluster) { c.tool = always(" ") }, want: run.ErrOutput, said: "cut"},
		"zero":            {fault: func(c *cluster) { c.tool = always(output(0)) }, want: run.ErrOutput, said: "no measurement"},
		"no number":       {fault: func(c *cluster) { c.tool = always(strings.ReplaceAll(output(1e9), "1000000000.000000", "NaN")) }, want: run.ErrOutput, said: "no JSON"},
		"refused":         {fault: func(c *cluster) { c.tool = always(`{"error": "unable to connect to server"}`) }, want: run.ErrOutput, said: "unable to connect"},
		"killed":          {fault: func(c *cluster) { c.tool = func(int) (string, error) { return "", errors.New("exit code 137") } }, want: run.ErrOutput, said: "137"},
		"another way":     {fault: func(c *cluster) { c.way = func(int) string { return "eth0" } }, want: run.ErrTooFew, said: "0 of 6 turns"},
		"another clock":   {fault: func(c *cluster) { c.tool = always(output(100e9)) }, want: run.ErrTooFew, said: "0 of 6 turns"},
		"misaligned later": {fault: func(c *cluster) {
			c.asClaimed = func(call int) string { return map[bool]string{true: "True", false: "False"}[call == 0] }
		}, want: run.ErrTooFew},
		"a drained node": {fault: func(c *cluster) {
			c.tool = func(call int) (string, error) {
				if call < 4 {
					return "", nil
				}
				if call == 4 {
					return "", c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), namespace, "plumbline-bench-x-server")
				}
				return "", errors.New("never reached")
			}
		}, want: run.ErrPod, said: "was its node drained?"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			f.fault(c)
			against := f.against
			if against == "" {
				against = plan.PodNetwork
			}
			_, _, err := c.measure(t, t.Context(), against)
			if err == nil || f.want != nil && !errors.Is(err, f.want) || !strings.Contains(err.Error(), f.said) {
				t.Errorf("%v, want %v with %q", err, f.want, f.said)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A run that is not as planned is thrown out with its turn, and the others count.
func TestRunsThrownOut(t *testing.T) {
	c := newCluster()
	c.tool = func(call int) (string, error) {
		if call == 5 {
			return output(1e9)[:80], nil
		}
		return "", nil
	}
	r, told, err := c.measure(t, t.Context(), plan.PodNetwork)
	if err != nil {
		t.Fatal(err)
	}
	if r.ThrownOut != 1 || r.Verdict.Turns != 5 || !strings.Contains(told, "thrown out (iperf3 -J: the output is cut") {
		t.Errorf("%d thrown out, %d turns, told %s", r.ThrownOut, r.Verdict.Turns, told)
	}
}

// Of three runs of the tool for one value the median counts, and the load of all three: one
// that the arm's NIC did not carry is more than the others make up for.
func TestRepeats(t *testing.T) {
	c := newCluster()
	c.repeats = 3
	c.tool = func(call int) (string, error) {
		// Three calls of either arm: 9, 10 and 11 Gbit/s, and the fourth turn says one too much.
		switch call % 3 {
		case 0:
			return output(9e9), nil
		case 1:
			return output(11e9), nil
		}
		if call == 23 {
			return output(90e9), nil
		}
		return output(10e9), nil
	}
	c.way = func(int) string { return "bench0" }
	r, _, err := c.measure(t, t.Context(), "true")
	if err == nil || r == nil {
		t.Fatalf("%+v, %v: arm B went by A's NIC", r, err)
	}
	first := r.Runs[0]
	if c.calls != 14*3 || *first.Value != 10 || len(first.Values) != 3 || first.Values[0] != 11 || *first.Retransmits != 9 || first.Sent != 3*10e9/8 {
		t.Errorf("%d calls, first run %+v", c.calls, first)
	}
	var thrown []int
	for _, one := range r.Runs {
		if one.Arm == report.A && one.ThrownOut != "" {
			thrown = append(thrown, one.Turn)
		}
	}
	if len(thrown) != 1 || thrown[0] != 3 {
		t.Errorf("runs of A thrown out in turns %v, want 3", thrown)
	}
}

// Whatever is asked of the cluster last before somebody interrupts: nothing is left.
func TestInterrupted(t *testing.T) {
	for at := 1; ; at++ {
		c := newCluster()
		// Nothing is waited for in vain, on however busy a machine.
		c.patience = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		c.step = func() {
			if steps++; steps == at {
				cancel()
			}
		}
		_, _, err := c.measure(t, ctx, plan.PodNetwork)
		if left := c.left(t); len(left) > 0 {
			t.Fatalf("interrupted at step %d: left %v", at, left)
		}
		if ctx.Err() == nil {
			if err != nil || at < 100 {
				t.Errorf("%d steps: %v", at, err)
			}
			cancel()
			return
		}
		if !errors.Is(err, context.Canceled) && err != nil {
			t.Fatalf("interrupted at step %d: %v", at, err)
		}
		cancel()
	}
}

// Who may not make the keeper, or does not reach the API server, is told that at once, and not
// that something may be left; who got no answer is.
func TestNothingMade(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	dial := &url.Error{Op: "Post", URL: "https://127.0.0.1:6443", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	read := &url.Error{Op: "Post", URL: "https://127.0.0.1:6443", Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}
	for name, f := range map[string]struct {
		err  error
		left bool
	}{
		"forbidden":     {apierrors.NewForbidden(jobs, "x", errors.New("no right to create")), false},
		"not reached":   {dial, false},
		"no answer":     {read, true},
		"out of time":   {apierrors.NewTimeoutError("the request timed out", 1), true},
		"there already": {apierrors.NewAlreadyExists(jobs, "x"), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, f.err })
			c.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(jobs, "", errors.New("no right to list"))
			})
			_, _, err := c.measure(t, t.Context(), plan.PodNetwork)
			if !errors.Is(err, f.err) || errors.Is(err, run.ErrLeft) != f.left || strings.Contains(err.Error(), "nothing was made") == f.left {
				t.Errorf("%v, want %v, something left: %v", err, f.err, f.left)
			}
		})
	}
}

// What cannot be deleted is named.
func TestLeft(t *testing.T) {
	c := newCluster()
	c.PrependReactor("delete", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	_, _, err := c.measure(t, t.Context(), plan.PodNetwork)
	if !errors.Is(err, run.ErrLeft) || !strings.Contains(err.Error(), "resourceclaim plumbline-bench-x-client, resourceclaim plumbline-bench-x-server; \"kubectl delete") {
		t.Error(err)
	}
}
