// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Alarm is one report that a pod is not as claimed. That it is not aligned is no
// alarm: these claims do not ask for it.
type Alarm struct {
	// Pod is the pod's name; that of the claim where no pod owns it.
	Pod string
	// What was reported, and by what: event, condition or verdict.
	What string
}

// String is one line of the output.
func (a Alarm) String() string { return a.Pod + ": " + a.What }

// Reports is what verification reported of the pods of a namespace.
type Reports struct {
	// Alarms are Misaligned events and conditions AsClaimed that were False, each
	// once.
	Alarms []Alarm
	// AsClaimed, and Unknown, count the claims that ever had that condition.
	AsClaimed, Unknown int
}

// Watcher collects what verification reports of the pods of one namespace.
type Watcher struct {
	stop func()

	mu       sync.Mutex
	alarms   []Alarm
	statuses map[metav1.ConditionStatus]map[types.UID]bool
}

// What the agent calls its condition and its warning (docs/verify.md).
const (
	conditionAsClaimed = "AsClaimed"
	reasonMisaligned   = "Misaligned"
)

// Watch collects until Stop, also over times without an API server. What was reported
// before counts too, as far as it is still there.
func Watch(ctx context.Context, client kubernetes.Interface, namespace string) (*Watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{statuses: map[metav1.ConditionStatus]map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	claims, events := factory.Resource().V1().ResourceClaims().Informer(), factory.Core().V1().Events().Informer()
	_, claimsErr := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.claim, UpdateFunc: func(_, now any) { w.claim(now) },
	})
	_, eventsErr := events.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.event, UpdateFunc: func(_, now any) { w.event(now) },
	})
	if err := errors.Join(claimsErr, eventsErr); err != nil {
		w.stop()
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), claims.HasSynced, events.HasSynced) {
		w.stop()
		return nil, fmt.Errorf("watch verification in namespace %s: %w", namespace, ctx.Err())
	}
	return w, nil
}

// Stop ends the watch and returns what was reported.
func (w *Watcher) Stop() Reports {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	return Reports{
		Alarms:    slices.Clone(w.alarms),
		AsClaimed: len(w.statuses[metav1.ConditionTrue]), Unknown: len(w.statuses[metav1.ConditionUnknown]),
	}
}

func (w *Watcher) claim(obj any) {
	c, ok := obj.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	for _, d := range c.Status.Devices {
		for _, condition := range d.Conditions {
			if condition.Type == conditionAsClaimed {
				w.addCondition(c, condition)
			}
		}
	}
}

func (w *Watcher) addCondition(c *resourceapi.ResourceClaim, condition metav1.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.statuses[condition.Status] == nil {
		w.statuses[condition.Status] = map[types.UID]bool{}
	}
	w.statuses[condition.Status][c.UID] = true
	if condition.Status != metav1.ConditionFalse {
		return
	}
	pod := c.Name
	if owner := metav1.GetControllerOf(c); owner != nil {
		pod = owner.Name
	}
	w.add(Alarm{pod, fmt.Sprintf("condition AsClaimed False %s: %s", condition.Reason, condition.Message)})
}

func (w *Watcher) event(obj any) {
	e, ok := obj.(*corev1.Event)
	if !ok || e.Reason != reasonMisaligned || e.InvolvedObject.Kind != "Pod" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(Alarm{e.InvolvedObject.Name, fmt.Sprintf("event %s: %s", e.Reason, e.Message)})
}

// add keeps one of each: all devices of a claim have the same condition.
func (w *Watcher) add(a Alarm) {
	if !slices.Contains(w.alarms, a) {
		w.alarms = append(w.alarms, a)
	}
}
