// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/run"
	"plumbline.dev/plumbline/internal/bench/stats"
	"plumbline.dev/plumbline/internal/bench/tools/mfu"
)

// job is a tool in pods that says what it is told to.
type job struct {
	// prints is what a run gives, of the arm whose mark is in its command, or not.
	prints func(second bool) string
	// mark is in the commands of the second arm.
	mark string
	// carries is how many bytes of a run go by the arm's interface.
	carries int64
	// lacks are programs that the image does not have.
	lacks string
	// commands are all but those that look.
	commands []string
	// setUp is how a step of preparing fails, and rank1 how the server's side does.
	setUp, rank1 error
}

func (c *cluster) executeJob(ctx context.Context, pod string, command []string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	line := strings.Join(command, " ")
	if c.job.rank1 != nil && strings.Contains(line, " RANK=0 ") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.Contains(line, "command -v \"$p\""):
		return []byte(c.job.lacks), nil
	case line == "cat /proc/net/dev":
		text := "Inter-| head\n face | head\n"
		for _, name := range []string{"lo", "eth0", "bench0"} {
			text += fmt.Sprintf("%6s: %d 1 0 0 0 0 0 0 %[2]d 1 0 0 0 0 0 0\n", name, c.bytes[pod][name])
		}
		return []byte(text), nil
	}
	c.job.commands = append(c.job.commands, pod[len("plumbline-bench-x-"):]+": "+line)
	switch {
	case strings.Contains(line, "ssh-keygen"):
		return []byte("ssh-ed25519 AAAA root@client\n"), c.job.setUp
	case strings.HasSuffix(pod, "server"):
		return nil, c.job.rank1
	}
	second := strings.Contains(line, c.job.mark)
	link := map[bool]string{true: "eth0", false: "bench0"}[second]
	for _, name := range []string{pod, strings.Replace(pod, "client", "server", 1)} {
		if c.bytes[name] == nil {
			c.bytes[name] = map[string]int64{}
		}
		c.bytes[name][link] += c.job.carries
	}
	return []byte(c.job.prints(second)), nil
}

// kinds are those whose pods run a job, each twice as slow in its second arm.
var kinds = map[string]struct {
	plan    func() (*plan.Plan, error)
	job     job
	pods    int
	version string
	says    string
	// cut and zero are outputs that are no figure.
	cut, zero string
}{
	plan.GPULatency: {
		plan: func() (*plan.Plan, error) {
			return plan.NewGPULatency(plan.Options{Run: "plumbline-bench-x", Namespace: namespace, Image: "bench", CPUs: 2})
		},
		job:  job{mark: "taskset -c 1 ", prints: func(second bool) string { return matrix(map[bool]string{true: "2000.00", false: "1000.00"}[second]) }},
		pods: 1, version: "nvbandwidth v0.8",
		cut: matrix("1000.00")[:80], zero: matrix("0.00"),
	},
	plan.Training: {
		plan: func() (*plan.Plan, error) {
			return plan.NewTraining(plan.Options{
				Run: "plumbline-bench-x", Namespace: namespace, Image: "bench", Variable: plan.NIC, Against: plan.PodNetwork,
				Command: []string{"train"}, Training: plan.TrainingOptions{Shape: mfu.Shape{Batch: 1000, Hidden: 1000, Layers: 10}, Precision: "fp32", Steps: 4, Peak: 1},
			})
		},
		job:  job{mark: "MASTER_ADDR=10.88", carries: 2 * 1000 * 1000 * 10 * 4, prints: func(second bool) string { return step(map[bool]float64{true: 200, false: 100}[second]) }},
		pods: 2, version: `MFU_RESULT by gloo, fp32, 2 ranks on "cpu" of 1 TFLOP/s`, says: `60.00 % MFU: 0.60 of 1 TFLOP/s a GPU (fp32, dense), 2 ranks on "cpu"`,
		cut: step(100)[:60], zero: strings.Replace(step(100), "avg_step_ms=100", "avg_step_ms=0", 1),
	},
	plan.AllReduce: {
		plan: func() (*plan.Plan, error) {
			return plan.NewAllReduce(plan.Options{
				Run: "plumbline-bench-x", Namespace: namespace, Image: "bench", Variable: plan.NIC, Against: plan.PodNetwork,
				Command: []string{"all_reduce_perf"}, Iterations: 20, Bytes: 2048,
			})
		},
		job:  job{mark: "oob_tcp_if_include eth0", carries: 2 * (1024 + 2048) * 20, prints: func(second bool) string { return sums(map[bool]string{true: "1.00", false: "0.50"}[second]) }},
		pods: 2, version: "all_reduce_perf",
		cut: strings.Split(sums("1.00"), "# Out")[0], zero: sums("0.00"),
	},
}

func matrix(nanoseconds string) string {
	return "nvbandwidth Version: v0.8\n\nRunning host_device_latency_sm.\nmemory latency SM CPU(row) <-> GPU(column) (ns)\n           0\n 0   " +
		nanoseconds + "\n\nSUM host_device_latency_sm " + nanoseconds + "\n"
}

// step is the line of two ranks without GPUs: 6e10 operations.
func step(ms float64) string {
	tflops := 60 / ms
	return fmt.Sprintf("MFU_RESULT backend=gloo device='cpu' world_size=2 dtype=fp32 avg_step_ms=%g tflops_per_gpu=%.4f peak_tflops_per_gpu=1.0 mfu_percent=%.2f final_loss=0.5\n",
		ms, tflops, 100*tflops)
}

func sums(bandwidth string) string {
	text := "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n" +
		"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
	for _, size := range []string{"1024 256", "2048 512"} {
		text += fmt.Sprintf("%s float sum -1 10 %s %[2]s 0 10 %[2]s %[2]s 0\n", size, bandwidth)
	}
	return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : " + bandwidth + "\n"
}

// measureJob runs a kind with a job of which something is changed.
func measureJob(t *testing.T, kind string, change func(*cluster)) (*cluster, *report.Report, error) {
	t.Helper()
	c := newCluster()
	c.patience = time.Minute
	j := kinds[kind].job
	c.job = &j
	change(c)
	p, err := kinds[kind].plan()
	if err != nil {
		t.Fatal(kind, err)
	}
	r, _, err := c.carryOut(t.Context(), p)
	if left := c.left(t); len(left) > 0 {
		t.Errorf("%s: left %v", kind, left)
	}
	return c, r, err
}

func TestJobs(t *testing.T) {
	for kind, k := range kinds {
		_, r, err := measureJob(t, kind, func(*cluster) {})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if r.Verdict.Answer != stats.Higher || r.Verdict.Ratio != 2 || r.Verdict.Turns != 6 || r.ThrownOut != 0 {
			t.Errorf("%s: %+v, want twice as much in 6 turns", kind, r.Verdict)
		}
		first := r.Runs[0]
		if len(r.Pods) != k.pods || len(first.Before) != k.pods || first.Sent != k.job.carries || r.Versions.Tool != k.version || first.Says != k.says {
			t.Errorf("%s: %d pods, versions %+v, first run %+v", kind, len(r.Pods), r.Versions, first)
		}
	}
}

// Each fault ends in an error of its own, whatever the job is, and leaves nothing.
func TestJobsFail(t *testing.T) {
	for kind, k := range kinds {
		for name, f := range map[string]struct {
			fault func(*cluster)
			want  error
			said  string
		}{
			"no tool in the image": {func(c *cluster) { c.job.lacks = "taskset\n" }, run.ErrTool, "no taskset"},
			"cut":                  {func(c *cluster) { c.job.prints = func(bool) string { return k.cut } }, run.ErrOutput, "the output is cut"},
			"zero":                 {func(c *cluster) { c.job.prints = func(bool) string { return k.zero } }, run.ErrOutput, "no measurement"},
			"nothing printed":      {func(c *cluster) { c.job.prints = func(bool) string { return "" } }, run.ErrOutput, "cut"},
			"no step of preparing": {func(c *cluster) { c.job.setUp = errors.New("no entropy") }, nil, "no entropy"},
			"too little load":      {func(c *cluster) { c.job.carries-- }, run.ErrTooFew, "0 of 6 turns"},
		} {
			if kind != plan.AllReduce && name == "no step of preparing" || kind == plan.GPULatency && name == "too little load" {
				continue // it has none
			}
			_, _, err := measureJob(t, kind, f.fault)
			if err == nil || f.want != nil && !errors.Is(err, f.want) || !strings.Contains(err.Error(), f.said) {
				t.Errorf("%s, %s: %v, want %v with %q", kind, name, err, f.want, f.said)
			}
		}
	}
}

// Where rank 0 waits in vain, rank 1 tells why.
func TestRankThatFails(t *testing.T) {
	_, _, err := measureJob(t, plan.Training, func(c *cluster) { c.job.rank1 = errors.New("no module named torch") })
	if !errors.Is(err, run.ErrOutput) || !strings.Contains(err.Error(), "the server: no module named torch") {
		t.Error(err)
	}
}

// The client's key is made once, and is let in by the server before anything runs.
func TestSetUp(t *testing.T) {
	c, _, err := measureJob(t, plan.AllReduce, func(*cluster) {})
	if err != nil {
		t.Fatal(err)
	}
	keys := slices.DeleteFunc(slices.Clone(c.job.commands), func(line string) bool { return !strings.Contains(line, "ssh-keygen") })
	if len(keys) != 2 || !strings.HasPrefix(keys[0], "client: sh -c") || !strings.HasPrefix(keys[1], "server: sh -c") ||
		!strings.HasSuffix(keys[1], " sh ssh-ed25519 AAAA root@client 2222") || !slices.Equal(keys, c.job.commands[:2]) {
		t.Errorf("%q", keys)
	}
}
