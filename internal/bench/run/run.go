// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/stats"
	"plumbline.dev/plumbline/internal/version"
)

// How a run ends that gives no verdict, beside plan.ErrUndeclared and the context's error.
var (
	// ErrTooFew is of too few turns that count.
	ErrTooFew = errors.New("too few runs are left")
	// ErrPod is of a pod that did not start, or did not stay.
	ErrPod = errors.New("a pod does not run")
	// ErrTool is of an image without the tool.
	ErrTool = errors.New("the image lacks a program")
	// ErrOutput is of a tool that gives no figure from the start on.
	ErrOutput = errors.New("the tool gives no figure")
	// ErrLeft is of objects that would not go.
	ErrLeft = errors.New("something is left in the cluster")
)

// Execute runs a command in the tool's container of a pod. What it printed is returned also
// where the command failed.
type Execute func(ctx context.Context, namespace, pod string, command []string) (out []byte, err error)

// Verify asks of a pod whether it is as claimed, and aligned.
type Verify func(ctx context.Context, pod *corev1.Pod) (report.Verified, error)

// HostPackets asks a node for the packets of RDMA devices, a line for each counter: the
// device, the counter's file and its number.
type HostPackets func(ctx context.Context, node string, devices []string) (out []byte, err error)

// Runner carries plans out.
type Runner struct {
	Client  kubernetes.Interface
	Execute Execute
	Verify  Verify
	// HostPackets asks a node for the counters of its RDMA devices.
	HostPackets HostPackets
	// Progress is told a line at a time.
	Progress func(line string)
	Now      func() time.Time
	// Seed is what the interval is drawn with.
	Seed uint64
	// Poll is how often the cluster is asked, Patience how long pods may take to start, and
	// objects to go.
	Poll, Patience time.Duration
}

// Settings say how much is measured.
type Settings struct {
	// Pairs are the turns that are measured, after one that is not.
	Pairs int
	// Repeats is how often the tool runs for one value of an arm, which is the median.
	Repeats int
}

// Run returns the report of a plan. Where it fails with ErrTooFew there is a report too. All
// that it made is gone when it returns, or the error is ErrLeft also.
func (r *Runner) Run(ctx context.Context, p *plan.Plan, s Settings) (_ *report.Report, err error) {
	// Its own context, since this is what is left to do when the other is over.
	defer func() {
		nothing := errors.Is(err, errNothingMade)
		// Whatever failed then failed of that.
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if !nothing {
			err = errors.Join(err, r.takeAway(context.WithoutCancel(ctx), p))
		}
	}()
	return r.run(ctx, p, s)
}

// run is Run, and leaves all there.
func (r *Runner) run(ctx context.Context, p *plan.Plan, s Settings) (*report.Report, error) {
	ctx, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	defer func() { stop(); <-kept }()
	began := r.Now()
	if err := r.create(ctx, p); err != nil {
		close(kept)
		return nil, err
	}
	go func() {
		defer close(kept)
		r.keep(ctx, p, began)
	}()
	figure := p.Tool.Figure
	m := &measurement{Runner: r, plan: p, settings: s, report: &report.Report{
		Schema: report.Schema, Kind: p.Kind, Variable: p.Variable, Started: began.UTC().Truncate(time.Second), Seconds: p.Tool.Seconds, Iterations: p.Tool.Iterations, Bytes: p.Tool.Bytes, Repeats: s.Repeats,
		Figure: report.Figure{Name: figure.Name, Unit: figure.Unit, HigherIsBetter: figure.HigherIsBetter}, Runs: []report.Run{},
		Counted: counted(p.Tool.Carrier),
	}}
	defer func() {
		stop()
		m.awaitServer()
	}()
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	if err := m.turns(ctx); err != nil {
		return nil, err
	}
	if err := m.report.Judge(r.Seed); err != nil {
		return nil, err
	}
	if m.report.Verdict.Answer == stats.TooFew {
		return m.report, fmt.Errorf("%w: %d of %d turns count, want %d", ErrTooFew, m.report.Verdict.Turns, s.Pairs, stats.FewestPairs)
	}
	return m.report, nil
}

// measurement is one plan that is carried out.
type measurement struct {
	*Runner
	plan     *plan.Plan
	settings Settings
	report   *report.Report
	// pods are as they were when they had become ready, by role.
	pods map[string]*corev1.Pod
	// targets are where the arms' servers listen and their clients send from.
	targets map[report.Letter]target
	// server is the last that was begun.
	server *server
}

// counted is what the report's counts are of, where it is not bytes.
func counted(carrier plan.Carrier) plan.Unit {
	if carrier == plan.RDMADevices {
		return plan.Packets
	}
	return ""
}

// prepare waits for the pods, and sees that they are what the plan says.
func (m *measurement) prepare(ctx context.Context) error {
	if err := m.awaitReady(ctx); err != nil {
		return err
	}
	if err := m.readDevices(ctx); err != nil {
		return err
	}
	m.describe(ctx)
	if err := m.awaitTool(ctx); err != nil {
		return err
	}
	if err := m.awaitVerified(ctx); err != nil {
		return err
	}
	if err := m.findRDMA(ctx); err != nil {
		return err
	}
	return m.setUp(ctx)
}

// describe notes what the pods are and what they run on. Who may not read nodes gets a report
// without their kernels.
func (m *measurement) describe(ctx context.Context) {
	m.report.Versions.Plumbline = version.Version
	if v, err := m.Client.Discovery().ServerVersion(); err == nil {
		m.report.Versions.Kubernetes = v.GitVersion
	}
	for _, side := range m.plan.Sides() {
		pod := m.pods[side.Role]
		described := report.Pod{Role: side.Role, Node: pod.Spec.NodeName, Image: pod.Spec.Containers[0].Image, Claim: side.Claim.Spec}
		for _, c := range pod.Status.ContainerStatuses {
			described.ImageID = c.ImageID
		}
		if node, err := m.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{}); err == nil {
			described.Kernel = node.Status.NodeInfo.KernelVersion
		}
		m.report.Pods = append(m.report.Pods, described)
	}
}

// errPatience is of what did not come in time.
var errPatience = errors.New("patience is over")

// await asks until it is done, or fails, or patience is over, or the context.
func (r *Runner) await(ctx context.Context, done wait.ConditionWithContextFunc) error {
	// The question itself is not cut off by patience, but for the context.
	err := wait.PollUntilContextTimeout(ctx, r.Poll, r.Patience, true, func(context.Context) (bool, error) { return done(ctx) })
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return errPatience
	}
	return err
}
