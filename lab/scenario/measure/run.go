// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

const (
	patience  = 5 * time.Minute
	poll      = time.Second
	namespace = "plumblab-measure"
)

// Exit codes of plumbline bench, as its help has them.
const (
	exitTool        = 6
	exitInterrupted = 130
)

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Plumbline scenario.Plumbline
	// ToolImage has iperf3, and JobImage what jobs of two ranks run: AllReduce adds up, and
	// Train trains.
	ToolImage, JobImage string
	AllReduce, Train    string
	// StandIns are the node's NICs; the other end of each is called far and its name.
	StandIns []string
	// Dir is where reports and pictures are kept.
	Dir string
}

type run struct {
	Config
	report harness.Report
}

// Run goes through all steps, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "measure", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

// bridge joins the NICs' other ends, as a switch would.
const bridge = "measure"

func (r *run) cleanUp(ctx context.Context) error {
	_, err := r.Shell(ctx, "ip link show "+bridge+" >/dev/null 2>&1 || exit 0; ip link delete "+bridge)
	return errors.Join(err, harness.DeleteNamespace(ctx, r.Client, namespace, patience))
}

func (r *run) steps(ctx context.Context) error {
	script := "ip link add " + bridge + " type bridge && ip link set " + bridge + " up"
	for _, nic := range r.StandIns {
		script += " && ip link set far" + nic + " master " + bridge
	}
	if _, err := r.Shell(ctx, script); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	// Claims may not set addresses where no administrator says so.
	allow := []byte(`{"metadata":{"labels":{"allow.plumbline.dev/addresses":"true"}}}`)
	if _, err := r.Client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, allow, metav1.PatchOptions{}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.podNetwork, r.otherNIC, r.allReduce, r.training, r.noTool, r.interrupted, r.killed} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// command is plumbline bench of a kind on the node, with an image.
func (r *run) command(kind, image string, more ...string) []string {
	return append([]string{"bench", kind, "-n", namespace, "--node", r.Node, "--image", image}, more...)
}

// oneSubnet is of the claimed NIC of arms one of which is the pods' own network.
const oneSubnet = "192.168.200.0/24"

func (r *run) podNetwork(ctx context.Context) error {
	return r.measured(ctx, "tcp, eth0", r.command(plan.TCP, r.ToolImage, "--addresses", oneSubnet, "--pairs", "8", "--seconds", "2"))
}

func (r *run) otherNIC(ctx context.Context) error {
	return r.measured(ctx, "tcp, nics", r.command(plan.TCP, r.ToolImage,
		"--against", "true", "--addresses", oneSubnet+",192.168.201.0/24", "--pairs", "8", "--seconds", "2"))
}

// jobArms has a job's ranks go by a claimed NIC, and by the pods' own network: the node has one
// NUMA node and no GPU.
func jobArms() []string {
	return []string{"--against", plan.PodNetwork, "--addresses", oneSubnet, "--cpus", "0", "--gpus", "0", "--pairs", "6"}
}

func (r *run) allReduce(ctx context.Context) error {
	return r.measured(ctx, "allreduce", r.command(plan.AllReduce, r.JobImage,
		append(jobArms(), "--program", r.AllReduce, "--size", "4194304", "--iterations", "10")...))
}

// training has a model that two processors step through in a tenth of a second. Its peak is
// nobody's: the share of it says nothing here, and the step does.
func (r *run) training(ctx context.Context) error {
	return r.measured(ctx, "training", r.command(plan.Training, r.JobImage,
		append(jobArms(), "--batch", "64", "--hidden", "512", "--layers", "4", "--steps", "10", "--precision", "fp32", "--peak-tflops", "1",
			"--", "python3", r.Train)...))
}

// measured runs a measurement to its end and shows its report. Which arm is faster is this
// host's business.
func (r *run) measured(ctx context.Context, name string, command []string) error {
	of := filepath.Join(r.Dir, strings.ReplaceAll(name, ", ", "-"))
	file := of + ".json"
	// Before what the user's own command is, where there is one.
	at := slices.Index(append(command, "--"), "--")
	answer, err := r.Plumbline.Run(ctx, slices.Insert(command, at, "-o", "json", "--svg", of+".svg")...)
	if err != nil {
		return err
	}
	if answer.Code != 0 {
		r.report.Finding(false, "bench "+name, "%s", answer.Ending())
		return nil
	}
	measured, err := report.Read(strings.NewReader(answer.Out))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(answer.Out), 0o644); err != nil {
		return err
	}
	shown, err := r.Plumbline.Run(ctx, "bench", "report", file)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "%s\n", shown.Out)
	r.report.Finding(shown.Code == 0, "bench "+name, "%s", measured.Sentence())
	return r.nothingLeft(ctx, "after bench "+name, 0)
}

// noTool has an image without iperf3.
func (r *run) noTool(ctx context.Context) error {
	answer, err := r.Plumbline.Run(ctx, r.command(plan.TCP, r.Image, "--addresses", oneSubnet)...)
	if err != nil {
		return err
	}
	r.report.Finding(answer.Code == exitTool, "an image without iperf3", "%s", answer.Ending())
	return r.nothingLeft(ctx, "after that", 0)
}

// interrupted sends the command a Ctrl-C, and killed a signal that it cannot take.
func (r *run) interrupted(ctx context.Context) error {
	code, said, err := r.signalled(ctx, syscall.SIGINT)
	if err != nil {
		return err
	}
	r.report.Finding(code == exitInterrupted, "Ctrl-C while it measures", "exit code %d: %s", code, said)
	return r.nothingLeft(ctx, "after Ctrl-C", 0)
}

func (r *run) killed(ctx context.Context) error {
	code, _, err := r.signalled(ctx, syscall.SIGKILL)
	if err != nil {
		return err
	}
	left, err := r.left(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(code == -1 && len(left) > 0, "killed while it measures", "leaves %s", strings.Join(left, ", "))
	return r.nothingLeft(ctx, "after its keeper's deadline", patience)
}

// signalled sends a signal to a measurement that has begun.
func (r *run) signalled(ctx context.Context, signal syscall.Signal) (code int, said string, err error) {
	cmd := exec.CommandContext(ctx, r.Plumbline.Program, r.command(plan.TCP, r.ToolImage, "--addresses", oneSubnet, "--pairs", "100")...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.Plumbline.Kubeconfig)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		pods, err := r.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: plan.Label})
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range pods.Items {
			if harness.IsReady(&pods.Items[i]) {
				ready++
			}
		}
		return ready == 2, nil
	})
	if err == nil {
		err = harness.Sleep(ctx, 3*time.Second)
	}
	if err != nil {
		return 0, "", errors.Join(err, cmd.Process.Kill(), <-ended)
	}
	if err := cmd.Process.Signal(signal); err != nil {
		return 0, "", err
	}
	<-ended
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return cmd.ProcessState.ExitCode(), lines[len(lines)-1], nil
}

// nothingLeft looks for what bench made, and waits so long for it to be gone.
func (r *run) nothingLeft(ctx context.Context, when string, limit time.Duration) error {
	began := time.Now()
	for {
		left, err := r.left(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			r.report.Finding(true, when, "nothing is left (%s)", time.Since(began).Round(time.Second))
			return nil
		}
		if time.Since(began) > limit {
			r.report.Finding(false, when, "left are %s", strings.Join(left, ", "))
			return nil
		}
		if err := harness.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// left are the objects with bench's label.
func (r *run) left(ctx context.Context) ([]string, error) {
	these := metav1.ListOptions{LabelSelector: plan.Label}
	var names []string
	pods, err := r.Client.CoreV1().Pods(namespace).List(ctx, these)
	if err != nil {
		return nil, err
	}
	for _, o := range pods.Items {
		names = append(names, "pod "+o.Name)
	}
	claims, err := r.Client.ResourceV1().ResourceClaims(namespace).List(ctx, these)
	if err != nil {
		return nil, err
	}
	for _, o := range claims.Items {
		names = append(names, "resourceclaim "+o.Name)
	}
	jobs, err := r.Client.BatchV1().Jobs(namespace).List(ctx, these)
	if err != nil {
		return nil, err
	}
	for _, o := range jobs.Items {
		names = append(names, "job "+o.Name)
	}
	return names, nil
}
