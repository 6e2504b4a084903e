// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// Options are what a Verifier works with.
type Options struct {
	Node string
	// Interval is how often it looks.
	Interval time.Duration
	Client   kubernetes.Interface
	// Pods lists the pods of the node that have claims.
	Pods func() []*corev1.Pod
	// Machine is the newest scan of the machine; nil before the first.
	Machine func() *model.Machine
	Kernel  verify.Kernel
	// Plugged is what device plugins gave to pods of the node; nil where nobody is to be
	// asked.
	Plugged func(ctx context.Context) ([]verify.Plugged, error)
	// Metrics counts; nil counts nothing.
	Metrics   *metrics.Metrics
	Listeners Listeners
}

// Verifier looks at the pods of a node.
type Verifier struct {
	Options
	// mu is held during a check, by the loop or for a request.
	mu           sync.Mutex
	expectations *expectations
	verdicts     verdicts
	sleep        func(ctx context.Context, d time.Duration) error
}

// New returns a Verifier that has not looked yet.
func New(o Options) *Verifier {
	return &Verifier{
		Options: o, expectations: newExpectations(o.Client, o.Node), sleep: verify.Sleep,
		verdicts: verdicts{listeners: o.Listeners, now: time.Now, pods: map[types.UID]*reported{}},
	}
}

// Run looks every interval until ctx ends.
func (v *Verifier) Run(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, v.Once, v.Interval)
}

// Once checks all pods, confirms what seems wrong by a second check, and calls the
// listeners with what is new.
func (v *Verifier) Once(ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.Machine()
	if m == nil {
		return
	}
	took := time.Duration(0)
	results, err := verify.Confirm(func() []verify.Result {
		began := time.Now()
		defer func() { took += time.Since(began) }()
		return v.look(ctx, m, false)
	}, func() error { return v.sleep(ctx, verify.ConfirmAfter) })
	if err != nil || ctx.Err() != nil {
		return // a check that was interrupted has no verdicts
	}
	v.verdicts.take(results, func(r verify.Result) map[string]types.UID { return v.expectations.claimUIDs(r.Expected) })
	v.count(took, results)
}

// look looks at all pods: those that share CPUs are found together only.
func (v *Verifier) look(ctx context.Context, m *model.Machine, detail bool) []verify.Result {
	results := verify.Check(ctx, m, v.Kernel, v.expectations.forPods(ctx, v.Pods()), detail)
	if v.Plugged == nil || !verify.HaveGPUs(results) {
		return results
	}
	if plugged, err := v.Plugged(ctx); err != nil {
		verify.PluginsUnknown(results, err.Error())
	} else {
		verify.AgainstPlugins(results, plugged)
	}
	return results
}

func (v *Verifier) count(took time.Duration, results []verify.Result) {
	counts := map[string]int{}
	for _, word := range evaluate.Words() {
		counts[string(word)] = 0
	}
	for _, r := range results {
		counts[string(r.Word())]++
	}
	v.Metrics.Verified(time.Now().Add(-took), counts, v.Kernel.Unanswered())
}

// now checks for a request on the socket, in detail; no listener is called.
func (v *Verifier) now(ctx context.Context, chosen func(expect.Pod) bool) (*verify.Report, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.Machine()
	if m == nil {
		return nil, errNotScanned
	}
	results, err := verify.Confirm(func() []verify.Result {
		return slices.DeleteFunc(v.look(ctx, m, true), func(r verify.Result) bool { return !chosen(r.Expected) })
	}, func() error { return v.sleep(ctx, verify.ConfirmAfter) })
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	return verify.NewReport(m, v.Node, time.Now(), results), nil
}
