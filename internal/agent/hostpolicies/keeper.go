// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicies

import (
	"context"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/model"
)

// Options say what is kept.
type Options struct {
	Client rest.Interface
	// Labels are the node's, and what is closed when there are others.
	Labels func() (labels.Set, <-chan struct{})
	// Machine is the last scan of the host: links that pods hold are not in it.
	Machine func() *model.Machine
	// Interval is how often the host is looked at without a reason.
	Interval time.Duration
	// Apply makes the host what policies want, and puts back what none wants any more.
	Apply func([]hostpolicy.Policy, *model.Machine) (Outcome, error)
	// Told is called when Results has others.
	Told func()
}

// Outcome is what became of policies.
type Outcome struct {
	Results []hostpolicy.Result
	// Asking says that there is something to do for plumbline-host-setup.
	Asking bool
}

// askAgain is the time after which the host is looked at again while plumbline-host-setup
// is asked.
const askAgain = 5 * time.Second

// Keeper keeps the host of one node.
type Keeper struct {
	Options
	// wake has a value when the host is to be looked at.
	wake chan struct{}

	mu sync.Mutex
	// policies are nil until they are known: what an earlier agent set stays meanwhile.
	policies []*hosts.HostPolicy
	known    bool
	results  []hosts.PolicyResult
	asking   bool
	looked   bool
	// failed is the text of the last failure: each is logged once.
	failed string
}

// New returns a keeper that works from Run on.
func New(o Options) *Keeper { return &Keeper{Options: o, wake: make(chan struct{}, 1)} }

// Run keeps the host until ctx ends. What policies have set stays then.
func (k *Keeper) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx, k.Client, k.know) })
	defer watching.Wait()
	for {
		now, changed := k.Labels()
		interval := k.Interval
		if k.look(ctx, now); k.Asking() {
			interval = min(interval, askAgain)
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-k.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Look has the host looked at soon: its machine has changed.
func (k *Keeper) Look() {
	select {
	case k.wake <- struct{}{}:
	default: // one is pending, and covers this change too
	}
}

// Results are what became of the node's policies, in the order of their names.
func (k *Keeper) Results() []hosts.PolicyResult {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.results
}

// Known says whether the host was looked at with the cluster's policies known.
func (k *Keeper) Known() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looked
}

// Asking says whether there is something to do for plumbline-host-setup.
func (k *Keeper) Asking() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asking
}

func (k *Keeper) know(policies []*hosts.HostPolicy) {
	k.mu.Lock()
	k.policies, k.known = policies, true
	k.mu.Unlock()
	k.Look()
}

// look brings the host to what its policies want.
func (k *Keeper) look(ctx context.Context, node labels.Set) {
	k.mu.Lock()
	all, known := k.policies, k.known
	k.mu.Unlock()
	if !known {
		return
	}
	policies, wrong := chosen(all, node)
	done, err := k.Apply(policies, k.Machine())
	results := summed(policies, done.Results, wrong)
	if err != nil {
		for i := range results {
			results[i].Open = append(results[i].Open, hosts.FieldResult{State: string(hostpolicy.Failed), Reason: text(maxReason, err.Error())})
			results[i].Open = results[i].Open[max(0, len(results[i].Open)-maxOpen):]
		}
	}
	k.mu.Lock()
	same := k.looked && apiequality.Semantic.DeepEqual(results, k.results) && done.Asking == k.asking
	k.results, k.asking, k.looked = results, done.Asking, true
	k.mu.Unlock()
	k.log(ctx, err)
	if !same {
		k.Told()
	}
}

func (k *Keeper) log(ctx context.Context, err error) {
	switch {
	case err == nil:
		k.failed = ""
	case k.failed != err.Error():
		k.failed = err.Error()
		klog.FromContext(ctx).Error(err, "policies of the host are not followed, will retry")
	}
}
