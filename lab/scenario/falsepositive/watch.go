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

// Alarm is one thing said of a pod that is not as claimed. How near its things are
// is no alarm: these claims do not ask for it.
type Alarm struct {
	// Pod is the pod's name; that of the claim where no pod owns it.
	Pod string
	// What was said, and by what.
	What string
}

// String is one line of the record.
func (a Alarm) String() string { return a.Pod + ": " + a.What }

// Heard is what verification said of the pods of a namespace.
type Heard struct {
	// Alarms are Misaligned events and conditions AsClaimed that were False, each
	// once.
	Alarms []Alarm
	// AsClaimed, and Unknown, counts the claims of which that was ever said.
	AsClaimed, Unknown int
}

// Watcher hears what verification says of the pods of one namespace.
type Watcher struct {
	stop func()

	mu     sync.Mutex
	alarms []Alarm
	said   map[metav1.ConditionStatus]map[types.UID]bool
}

// What the agent calls its condition and its warning (docs/verify.md).
const (
	conditionAsClaimed = "AsClaimed"
	reasonMisaligned   = "Misaligned"
)

// Watch listens until Stop, also over times without an API server. What was said
// before it counts too, as far as it is still there.
func Watch(ctx context.Context, client kubernetes.Interface, namespace string) (*Watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{said: map[metav1.ConditionStatus]map[types.UID]bool{}}
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
		return nil, fmt.Errorf("listen to verification in namespace %s: %w", namespace, ctx.Err())
	}
	return w, nil
}

// Stop ends the listening and returns what was heard.
func (w *Watcher) Stop() Heard {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	return Heard{
		Alarms:    slices.Clone(w.alarms),
		AsClaimed: len(w.said[metav1.ConditionTrue]), Unknown: len(w.said[metav1.ConditionUnknown]),
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
				w.hear(c, condition)
			}
		}
	}
}

func (w *Watcher) hear(c *resourceapi.ResourceClaim, condition metav1.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[condition.Status] == nil {
		w.said[condition.Status] = map[types.UID]bool{}
	}
	w.said[condition.Status][c.UID] = true
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

// add keeps one of each: all of a claim's entries say the same.
func (w *Watcher) add(a Alarm) {
	if !slices.Contains(w.alarms, a) {
		w.alarms = append(w.alarms, a)
	}
}
