// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// nodeLabels are the labels that the node has now.
type nodeLabels struct {
	mu      sync.Mutex
	now     labels.Set
	changed chan struct{} // closed when now is another one
}

func (n *nodeLabels) set(now map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil && maps.Equal(n.now, now) {
		return
	}
	if n.changed != nil {
		close(n.changed)
	}
	n.now, n.changed = maps.Clone(now), make(chan struct{})
}

// get returns the labels, and what is closed when there are others.
func (n *nodeLabels) get() (labels.Set, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.now, n.changed
}

// phase is how far a driver is served on the node.
type phase int

const (
	// unregistered: the kubelet does not know the driver from this agent.
	unregistered phase = iota
	// draining: nothing is offered and no new claim is prepared, but claims that
	// were prepared here are ended.
	draining
	// serving: all is done.
	serving
)

// decide is the whole rule of a driver's life: its labels, and whether a claim that
// was prepared here has not ended. It needs no memory, so an agent that was killed
// comes to the same answer by its journal.
func decide(labelled, holds bool) phase {
	switch {
	case labelled:
		return serving
	case holds:
		return draining
	}
	return unregistered
}

// opens says whether a driver is opened at the start. All are, so that a label that comes
// needs no new start, but that of CPUs: opened, it keeps every container of the node off
// the CPUs that claims hold and on the others, where the CPUs may be another driver's. It
// is opened where its devices are offered, or claims are held that somebody must end.
func opens(name string, offered []string, records *journal.Journal) (bool, error) {
	if name != slicecodec.DriverCPU || slices.Contains(offered, name) {
		return true, nil
	}
	held, problems, err := records.List(name)
	return len(held)+len(problems) > 0, err
}

// awaitCPUs ends the agent, which starts anew and opens the driver of CPUs then, when the
// node's labels have it offered.
func (a *agent) awaitCPUs(ctx context.Context, stop context.CancelCauseFunc) {
	for {
		_, changed := a.labels.get()
		if slices.Contains(a.offered(), slicecodec.DriverCPU) {
			stop(fmt.Errorf("the node's labels have %s served now: the agent starts anew to do so", slicecodec.DriverCPU))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// lifecycle follows the node's labels for one driver.
type lifecycle struct {
	node     string
	preparer *claims.Preparer
	// selector is nil where the driver is served whatever the labels are.
	selector labels.Selector
	labels   *nodeLabels
	// register offers the driver to the kubelet; where another server of it is on
	// the node, the error is registration.ErrRival.
	register func(context.Context) (publish.Helper, error)
	// publisher offers the driver's devices.
	publisher  func(publish.Helper) *publish.Publisher
	publishers chan<- *publish.Publisher
	// waits is told of a rival; settled is called when the labels have been followed.
	waits   func(error)
	settled func()
	// left is called when the driver is not served any more, nil where nothing is to be
	// done then.
	left func()
	// pause is how often to look whether a rival left, or the last claim ended.
	pause time.Duration

	helper publish.Helper // nil while unregistered
	phase  phase          // what the publish loop was told last
}

// run follows the labels until ctx ends. What is registered then is ended by who
// ends the publish loop.
func (l *lifecycle) run(ctx context.Context) error {
	for {
		now, changed := l.labels.get()
		again, err := l.follow(ctx, now)
		if err != nil {
			return err
		}
		var timer <-chan time.Time
		if again {
			timer = time.After(l.pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-timer:
		}
	}
}

// follow does what the labels say, and returns whether to look again before they
// change.
func (l *lifecycle) follow(ctx context.Context, now labels.Set) (again bool, err error) {
	labelled := l.selector == nil || l.selector.Matches(now)
	l.preparer.Withdraw(l.refusal(labelled))
	// After Withdraw: no claim is being prepared that has no record yet.
	holds, err := l.preparer.Holds()
	if err != nil {
		klog.FromContext(ctx).Error(err, "not known whether claims are prepared here; served until they can be read")
	}
	next := decide(labelled, holds)
	if next == unregistered && l.phase == serving {
		next = draining // the slices are deleted by who wrote them, which takes a moment
	}
	if next == unregistered {
		l.unregister(ctx)
		if l.left != nil {
			l.left()
		}
		l.settled()
		return false, nil
	}
	if l.helper == nil {
		helper, err := l.register(ctx)
		if errors.Is(err, registration.ErrRival) {
			l.waits(err)
			return true, nil
		}
		if err != nil {
			return false, err
		}
		l.helper = helper
	}
	if next != l.phase {
		l.offer(ctx, next)
	}
	l.settled()
	return next == draining, nil
}

// refusal is why new claims are not prepared; nil where they are.
func (l *lifecycle) refusal(labelled bool) error {
	if labelled {
		return nil
	}
	return fmt.Errorf("%s is not served on node %s any more: its labels do not match %q (--driver-node-selector), "+
		"want a node that has them, or the label set again", l.preparer.Name(), l.node, l.selector)
}

// offer has the publish loop write the driver's devices, or delete its slices.
func (l *lifecycle) offer(ctx context.Context, next phase) {
	p := l.publisher(l.helper)
	p.Withdrawn = next == draining
	if p.Withdrawn {
		klog.FromContext(ctx).Info("the node's labels do not match: served until the claims that were prepared here end", "selector", l.selector.String())
	}
	select {
	case l.publishers <- p:
		l.phase = next
	case <-ctx.Done():
		if l.phase == unregistered { // the loop does not know it
			l.helper.Stop()
			l.helper = nil
		}
	}
}

// unregister takes the driver from the kubelet, which deletes slices that are left.
func (l *lifecycle) unregister(ctx context.Context) {
	if l.helper == nil {
		return
	}
	select {
	case l.publishers <- &publish.Publisher{Driver: l.preparer.Name()}:
		l.helper.Stop()
		l.helper, l.phase = nil, unregistered
		klog.FromContext(ctx).Info("not served on this node: its labels do not match, and no claim is prepared here", "selector", l.selector.String())
	case <-ctx.Done():
	}
}

// managedDRANET are the labels by which a cloud runs its own server of dra.net on a
// node, and how that is switched off.
var managedDRANET = []struct {
	cloud string
	by    labels.Set
	off   string
}{
	{"GKE", labels.Set{"cloud.google.com/gke-networking-dra-driver": "true"}, "take the label off the node pool"},
	// Azure's own labels are not for its users to change.
	{"AKS", labels.Set{"kubernetes.azure.com/network-dra": "rdma"}, "set the node pool's mode of DRANET to Unmanaged"},
}

// recognise says by which labels clouds serve dra.net on the node themselves;
// empty where none does.
func recognise(node labels.Set) string {
	for _, m := range managedDRANET {
		if m.by.AsSelector().Matches(node) {
			return fmt.Sprintf("%s's managed DRANET serves dra.net on this node, by its label %s: "+
				"%s to have it served by plumbline, or have the labels of drivers.net.nodeSelector not match the node", m.cloud, m.by, m.off)
		}
	}
	return ""
}

// tellManaged says once for each time that the label comes whether a cloud's own
// DRANET is on the node.
func (a *agent) tellManaged(ctx context.Context) {
	for said := ""; ; {
		now, changed := a.labels.get()
		if text := recognise(now); text != said {
			said = text
			if text != "" {
				klog.FromContext(ctx).Info(text)
				a.events.Node(true, "ManagedDRANET", text)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// offered are the drivers that the node's labels have this agent serve now.
func (a *agent) offered() []string {
	now, _ := a.labels.get()
	var names []string
	for _, name := range a.Drivers {
		if s := a.NodeSelectors[name]; s == nil || s.Matches(now) {
			names = append(names, name)
		}
	}
	return names
}
