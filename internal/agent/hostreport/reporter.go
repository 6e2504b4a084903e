// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

const (
	// gap is between two writes, and up to half as much longer, so that nodes which a
	// switch takes down together do not write together.
	gap = 30 * time.Second
	// calm is between two looks, however often the machine changes.
	calm = 5 * time.Second
	// readAgain is how often the object is read, which people delete by hand and the
	// garbage collector with a node that was made again.
	readAgain = 10 * time.Minute
	// figuresAgain is how old figures get that nothing else is written with.
	figuresAgain = time.Hour
	// writeAtMost bounds the requests of one try.
	writeAtMost = 10 * time.Second
)

// Options say what is looked at, and when.
type Options struct {
	Node   string
	Client kubernetes.Interface
	// Reports is kube.HostsClient.
	Reports rest.Interface
	// Interval is how often the host is looked at, and Changed has a value when it
	// is to be looked at before.
	Interval time.Duration
	Changed  <-chan struct{}
	// Look looks at the host. Where it does not know yet what became of policies, as after
	// a start, the report goes on saying what it said.
	Look func() (found hosts.Report, policiesKnown bool)
}

// Reporter writes the report of one host.
type Reporter struct {
	Options
	store *store
	// last was written or found there, at written and read; without any the API
	// server is asked.
	last          *hosts.Report
	read, written time.Time
	// failed is the text of the last failure: each is logged once.
	failed string
}

// New returns a reporter that works from Run on.
func New(o Options) *Reporter {
	return &Reporter{Options: o, store: &store{client: o.Reports, name: o.Node}}
}

// Run looks and writes until ctx ends. What fails is tried again with what is so by
// then.
func (r *Reporter) Run(ctx context.Context) {
	retry := time.Duration(0)
	for ctx.Err() == nil {
		next, asked := r.Interval, false
		if wrote, err := r.report(ctx); err != nil {
			r.tell(ctx, err)
			retry = min(max(2*retry, time.Second), readAgain)
			next = wait.Jitter(retry, 0.5)
		} else {
			retry, asked, r.failed = 0, true, ""
			rest := calm
			if wrote {
				rest = wait.Jitter(gap, 0.5)
			}
			if !pause(ctx, rest, nil) {
				return
			}
		}
		changed := r.Changed
		if !asked { // the API server is away: changes bring it back no sooner
			changed = nil
		}
		if !pause(ctx, next, changed) {
			return
		}
	}
}

// pause waits for a time or for sooner, and returns false when ctx ends.
func pause(ctx context.Context, d time.Duration, sooner <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-sooner:
	}
	return true
}

func (r *Reporter) tell(ctx context.Context, err error) {
	if ctx.Err() == nil && r.failed != err.Error() {
		klog.FromContext(ctx).Error(err, "host report not written, will retry", "node", r.Node)
		r.failed = err.Error()
	}
}

// report looks, and writes what is worth it.
func (r *Reporter) report(ctx context.Context) (wrote bool, err error) {
	found, known := r.Look()
	found = r.kept(found, known)
	if r.last != nil && time.Since(r.read) < readAgain && !r.worthWriting(found) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeAtMost)
	defer cancel()
	// Whatever fails from here on, what the API server has is not known any more.
	before := r.last
	r.last = nil
	owner, err := r.owner(ctx)
	if err != nil {
		return false, err
	}
	there, err := r.store.get(ctx)
	if apierrors.IsNotFound(err) {
		return true, r.create(ctx, owner, found)
	}
	if err != nil {
		return false, fmt.Errorf("read HostReport %s: %w", r.Node, err)
	}
	r.last = &there.Report
	found = r.kept(found, known)
	if before == nil || !same(*before, there.Report) {
		r.written = there.Report.Changed.Time
	}
	if owned(there, owner) && !r.worthWriting(found) {
		r.read = time.Now()
		return false, nil
	}
	return true, r.update(ctx, there, owner, found)
}

// kept is a report with the policies of the last one, where those now are not known.
func (r *Reporter) kept(found hosts.Report, policiesKnown bool) hosts.Report {
	if !policiesKnown && r.last != nil {
		found.Policies, found.SetupWanted = r.last.Policies, r.last.SetupWanted
	}
	return found
}

// worthWriting says whether a report differs enough from the last one.
func (r *Reporter) worthWriting(found hosts.Report) bool {
	if !sameButFigures(*r.last, found) {
		return true
	}
	return time.Since(r.written) >= figuresAgain && !same(*r.last, found)
}

// owner is the Node: with it goes the report.
func (r *Reporter) owner(ctx context.Context) (metav1.OwnerReference, error) {
	node, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("read node %s, which owns its HostReport: %w", r.Node, err)
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, nil
}

func owned(report *hosts.HostReport, by metav1.OwnerReference) bool {
	return len(report.OwnerReferences) == 1 && report.OwnerReferences[0] == by
}

var errNoDefinition = errors.New("the API server has no HostReports: want the CustomResourceDefinition hostreports.plumbline.dev of the chart")

func (r *Reporter) create(ctx context.Context, owner metav1.OwnerReference, found hosts.Report) error {
	report := &hosts.HostReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: hosts.GroupVersion.String(), Kind: "HostReport"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Node, OwnerReferences: []metav1.OwnerReference{owner}},
		Report:     found,
	}
	report.Report.Changed = metav1.Now().Rfc3339Copy()
	err := r.store.create(ctx, report)
	if apierrors.IsNotFound(err) {
		return errNoDefinition
	}
	if err != nil {
		return fmt.Errorf("create HostReport %s: %w", r.Node, err)
	}
	r.wrote(report.Report)
	return nil
}

// update replaces what was read; where another writer was faster, the next try reads
// again.
func (r *Reporter) update(ctx context.Context, there *hosts.HostReport, owner metav1.OwnerReference, found hosts.Report) error {
	report := there.DeepCopy()
	report.TypeMeta = metav1.TypeMeta{APIVersion: hosts.GroupVersion.String(), Kind: "HostReport"}
	report.OwnerReferences = []metav1.OwnerReference{owner}
	if !same(report.Report, found) {
		report.Report = found
		report.Report.Changed = metav1.Now().Rfc3339Copy()
	}
	if err := r.store.update(ctx, report); err != nil {
		r.last = nil
		return fmt.Errorf("update HostReport %s: %w", r.Node, err)
	}
	r.wrote(report.Report)
	return nil
}

func (r *Reporter) wrote(report hosts.Report) {
	r.last, r.read, r.written = &report, time.Now(), time.Now()
}
