// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/run"
	"plumbline.dev/plumbline/internal/bench/stats"
)

// perftest is ib_write_lat and the kernel of two pods, each with the RDMA devices rxe0 and
// rxe1, which all network namespaces share or not.
type perftest struct {
	mu sync.Mutex
	// packets are those of each pod's devices.
	packets map[string]map[string]int64
	// listens says that the server waits, which ends when its client was there.
	listens bool
	served  chan struct{}
	// commands are those of perftest, in their order.
	commands []string
	clients  int
	// lacks are programs that the image does not have.
	lacks string
	// shared has the pods see no counters, and uncounted has the hosts have none either.
	shared, uncounted bool
	// gids is what a pod shows; nil is as it should.
	gids func(pod string) string
	// tool prints what a client's run gives; nil is by the CPUs and the device.
	tool func(client int) (string, error)
	// astray has packets go by another device than the arm's.
	astray func(client int) bool
	// refuses has the server end at once.
	refuses func(client int) bool
}

// newPerftestCluster is a cluster with perftest, where nothing is waited for in vain.
func newPerftestCluster() *cluster {
	c := newCluster()
	c.patience = time.Minute
	c.perftest = &perftest{packets: map[string]map[string]int64{}}
	return c
}

// table is what ib_write_lat prints.
func table(micros string) string {
	return " Mtu             : 1024[B]\n" +
		" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n" +
		" 2       1000          1.32           176.13       " + micros + "     \t       9.05        \t3.59   \t\t56.36   \t\t176.13\n" +
		"---------------------------------------------------------------------------------------\n"
}

func (p *perftest) execute(ctx context.Context, pod string, command []string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	line := strings.Join(command, " ")
	side := map[bool]int{true: 1, false: 2}[strings.HasSuffix(pod, "server")]
	switch {
	case strings.Contains(line, "command -v"):
		return []byte(p.lacks), nil
	case strings.Contains(line, "gid_attrs"):
		if p.gids != nil {
			return []byte(p.gids(pod)), nil
		}
		return fmt.Appendf(nil, "rxe0 0 fe80:0000:0000:0000:0000:0000:0000:0001 RoCE v2\nrxe0 1 0000:0000:0000:0000:0000:ffff:c0a8:c80%d IB/RoCE v1\n"+
			"rxe0 2 0000:0000:0000:0000:0000:ffff:c0a8:c80%[1]d RoCE v2\nrxe1 2 0000:0000:0000:0000:0000:ffff:c0a8:c90%[1]d RoCE v2\n", side), nil
	case strings.Contains(line, "hw_counters"):
		if p.shared {
			return nil, nil
		}
		return p.counted(pod, command[4:]), nil
	case line == "cat /proc/net/tcp":
		if p.listens {
			return []byte("  sl  local_address rem_address   st\n   0: 00000000:4854 00000000:0000 0A\n   1: 00000000:4853 00000000:0000 0A\n"), nil
		}
		return []byte("  sl  local_address rem_address   st\n"), nil
	case strings.HasSuffix(line, "--version"):
		return []byte("Version: 6.06\n"), errors.New("exit code 1")
	}
	p.commands = append(p.commands, line)
	if side == 1 {
		return nil, p.serve(ctx)
	}
	return p.measure(pod, line)
}

// serve waits for a client, as the server's side does; the lock is held before and after.
func (p *perftest) serve(ctx context.Context) error {
	if p.refuses != nil && p.refuses(p.clients+1) {
		return errors.New("Couldn't get device attributes")
	}
	p.listens, p.served = true, make(chan struct{})
	served := p.served
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-served:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *perftest) measure(pod, line string) ([]byte, error) {
	if !p.listens {
		return nil, errors.New("Couldn't connect")
	}
	p.clients++
	p.listens = false
	close(p.served)
	device, micros := "rxe0", "1.50"
	if strings.Contains(line, "rxe1") || strings.Contains(line, "taskset -c 2 ") {
		micros = "1.80"
	}
	if strings.Contains(line, "rxe1") != (p.astray != nil && p.astray(p.clients)) {
		device = "rxe1"
	}
	for _, name := range []string{pod, strings.Replace(pod, "client", "server", 1)} {
		if p.packets[name] == nil {
			p.packets[name] = map[string]int64{}
		}
		p.packets[name][device] += 2000
	}
	if p.tool != nil {
		if text, err := p.tool(p.clients); text != "" || err != nil {
			return []byte(text), err
		}
	}
	return []byte(table(micros)), nil
}

func (p *perftest) counted(pod string, devices []string) []byte {
	var out []byte
	for _, d := range devices {
		out = fmt.Appendf(out, "%s hw_counters/rcvd_pkts %d\n%[1]s hw_counters/sent_pkts %[2]d\n", d, p.packets[pod][d])
	}
	return out
}

// hostPackets are those of a node on which the client alone runs.
func (c *cluster) hostPackets(_ context.Context, _ string, devices []string) ([]byte, error) {
	c.perftest.mu.Lock()
	defer c.perftest.mu.Unlock()
	if c.perftest.uncounted {
		return nil, errors.New("RDMA device rxe0: /sys/class/infiniband has no counters of packets for it")
	}
	return c.perftest.counted("plumbline-bench-x-client", devices), nil
}

func (c *cluster) latency(t *testing.T, variable plan.Variable) (*report.Report, string, error) {
	t.Helper()
	return c.latencyUntil(t.Context(), t, variable)
}

func (c *cluster) latencyUntil(ctx context.Context, t *testing.T, variable plan.Variable) (*report.Report, string, error) {
	t.Helper()
	o := plan.Options{
		Run: "plumbline-bench-x", Namespace: namespace, Image: "bench", Variable: variable, CPUs: 1, Iterations: 1000, Bytes: 2,
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.200.0/24")},
	}
	if variable == plan.NIC {
		o.Against, o.Addresses = plan.Misaligned, append(o.Addresses, netip.MustParsePrefix("192.168.201.0/24"))
	}
	p, err := plan.NewRDMA(plan.RDMALatency, o)
	if err != nil {
		t.Fatal(err)
	}
	return c.carryOut(ctx, p)
}

func TestRDMA(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for variable, want := range map[plan.Variable]struct {
			name    string
			devices []string
			server  string
		}{
			plan.NIC:  {plan.Misaligned, []string{"rxe1", "rxe1"}, "timeout -s KILL 120 ib_write_lat -d rxe1 -i 1 -x 2 -p 18515 -s 2 -n 1000 -F"},
			plan.CPUs: {"far", []string{"rxe0", "rxe0"}, "taskset -c 2 timeout -s KILL 120 ib_write_lat -d rxe0 -i 1 -x 2 -p 18515 -s 2 -n 1000 -F"},
		} {
			c := newPerftestCluster()
			c.perftest.shared = shared
			r, told, err := c.latency(t, variable)
			if err != nil {
				t.Fatal(variable, err)
			}
			if r.Verdict.Answer != stats.Higher || r.Verdict.Ratio != 1.2 || r.Verdict.Turns != 6 || r.ThrownOut != 0 {
				t.Errorf("%s: %+v, want higher by 1.2 in 6 turns: %s", variable, r.Verdict, told)
			}
			if r.B.Name != want.name || !slices.Equal(r.B.RDMADevices, want.devices) || r.Counted != plan.Packets || r.Runs[3].Sent != 2000 || r.Runs[3].Astray != 0 {
				t.Errorf("%s: arm %+v, counted %s, run %+v", variable, r.B, r.Counted, r.Runs[3])
			}
			if r.Versions.Tool != "ib_write_lat 6.06" || r.Iterations != 1000 || r.Seconds != 0 {
				t.Errorf("%s: %+v, %d iterations, %d seconds", variable, r.Versions, r.Iterations, r.Seconds)
			}
			// The second turn begins with B.
			if got := c.perftest.commands[4:6]; got[0] != want.server || got[1] != want.server+map[plan.Variable]string{plan.NIC: " 192.168.201.1", plan.CPUs: " 192.168.200.1"}[variable] {
				t.Errorf("%s: commands %q", variable, got)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("%s: left %v", variable, left)
			}
		}
	}
}

// Each fault of RDMA ends in an error of its own, and leaves nothing.
func TestRDMAFails(t *testing.T) {
	always := func(text string) func(int) (string, error) {
		return func(int) (string, error) { return text, nil }
	}
	for name, f := range map[string]struct {
		fault func(*cluster)
		want  error
		said  string
	}{
		"no tool in the image":    {func(c *cluster) { c.perftest.lacks = "ib_write_lat\n" }, run.ErrTool, "no ib_write_lat"},
		"the same NIC twice":      {func(c *cluster) { c.sameNIC = true }, plan.ErrUndeclared, "the same NIC"},
		"no RDMA device":          {func(c *cluster) { c.patience, c.perftest.gids = time.Millisecond, func(string) string { return "" } }, nil, "no RDMA device in pod plumbline-bench-x-server has a GID of RoCE v2 that is 192.168.200.1"},
		"packets counted nowhere": {func(c *cluster) { c.perftest.shared, c.perftest.uncounted = true, true }, nil, "no counters of packets"},
		"a server that ends":      {func(c *cluster) { c.perftest.refuses = func(int) bool { return true } }, run.ErrOutput, "ended before its client came: Couldn't get device attributes"},
		"cut":                     {func(c *cluster) { c.perftest.tool = always(strings.TrimRight(table("1.5"), "-\n")) }, run.ErrOutput, "the output is cut"},
		"nothing printed":         {func(c *cluster) { c.perftest.tool = always(" ") }, run.ErrOutput, "cut"},
		"zero":                    {func(c *cluster) { c.perftest.tool = always(table("0.00")) }, run.ErrOutput, "no measurement"},
		"no number":               {func(c *cluster) { c.perftest.tool = always(table("nan")) }, run.ErrOutput, "no measurement"},
		"no MTU":                  {func(c *cluster) { c.perftest.tool = always(strings.Replace(table("1.5"), "Mtu", "Max", 1)) }, run.ErrOutput, "no such figure"},
		"killed": {func(c *cluster) {
			c.perftest.tool = func(int) (string, error) { return "", errors.New("exit code 137") }
		}, run.ErrOutput, "137"},
		"another way":            {func(c *cluster) { c.perftest.astray = func(int) bool { return true } }, run.ErrTooFew, "0 of 6 turns"},
		"CPUs that nobody tells": {func(c *cluster) { c.untold, c.patience = true, 50*time.Millisecond }, nil, "which CPUs request cpus was given"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPerftestCluster()
			f.fault(c)
			variable := plan.NIC
			if c.untold {
				variable = plan.CPUs
			}
			_, _, err := c.latency(t, variable)
			if err == nil || f.want != nil && !errors.Is(err, f.want) || !strings.Contains(err.Error(), f.said) {
				t.Errorf("%v, want %v with %q", err, f.want, f.said)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// One run by another device is thrown out with its turn.
func TestRDMARunsThrownOut(t *testing.T) {
	c := newPerftestCluster()
	c.perftest.astray = func(client int) bool { return client == 5 }
	r, told, err := c.latency(t, plan.NIC)
	if err != nil {
		t.Fatal(err)
	}
	if want := "0 packets were sent by rxe0, 0.00 of the 1000 that the tool says; 0 packets were received by rxe0, 0.00 of the 1000 that the tool says; 4000 packets went by other RDMA devices than rxe0"; r.ThrownOut != 1 || r.Verdict.Turns != 5 || !strings.Contains(told, want) {
		t.Errorf("%d thrown out, %d turns, told %s, want %s", r.ThrownOut, r.Verdict.Turns, told, want)
	}
}

// Somebody may interrupt while a server waits for its client: nothing is left, and no command
// goes on.
func TestRDMAInterrupted(t *testing.T) {
	for at := 20; ; at += 23 {
		c := newPerftestCluster()
		ctx, cancel := context.WithCancel(t.Context())
		var steps atomic.Int64
		c.step = func() {
			if steps.Add(1) == int64(at) {
				cancel()
			}
		}
		_, _, err := c.latencyUntil(ctx, t, plan.NIC)
		if left := c.left(t); len(left) > 0 {
			t.Fatalf("interrupted at step %d: left %v", at, left)
		}
		over := ctx.Err() == nil
		cancel()
		if over {
			if err != nil || at < 100 {
				t.Errorf("%d steps: %v", at, err)
			}
			return
		}
		if !errors.Is(err, context.Canceled) && err != nil {
			t.Fatalf("interrupted at step %d: %v", at, err)
		}
	}
}

// A client that fails in a later turn costs that turn, and a server whose pod goes ends
// everything.
func TestRDMALaterFaults(t *testing.T) {
	c := newPerftestCluster()
	c.perftest.tool = func(client int) (string, error) {
		if client == 5 {
			return "", errors.New("exit code 137")
		}
		return "", nil
	}
	r, told, err := c.latency(t, plan.NIC)
	if err != nil || r.ThrownOut != 1 || r.Verdict.Turns != 5 || !strings.Contains(told, "thrown out (exit code 137") {
		t.Errorf("%v, told %s", err, told)
	}
	c = newPerftestCluster()
	c.perftest.refuses = func(client int) bool {
		if client == 5 {
			_ = c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), namespace, "plumbline-bench-x-server")
		}
		return client == 5
	}
	if _, _, err := c.latency(t, plan.NIC); !errors.Is(err, run.ErrPod) || !strings.Contains(err.Error(), "was its node drained?") {
		t.Error(err)
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
