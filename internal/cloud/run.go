// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// jitter spreads the nodes of a cluster, which often start together.
const jitter = 0.2

// Run asks until ctx ends.
func (b *Book) Run(ctx context.Context) {
	asked := sync.OnceFunc(func() { close(b.first) })
	defer asked()
	if len(b.Candidates) == 0 {
		return
	}
	pause, next := pauses(b.Pace), time.Now()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
			all = true
		case <-b.wake:
		}
		err := b.ask(ctx, all)
		asked()
		if ctx.Err() != nil {
			return
		}
		b.tell(ctx, err)
		switch retry := time.Now().Add(pause.Step()); {
		case err != nil && (all || retry.Before(next)):
			next = retry
		case err == nil:
			pause = pauses(b.Pace)
			if all {
				next = time.Now().Add(wait.Jitter(b.Pace.Refresh, jitter))
			}
		}
	}
}

// pauses are the times between retries.
func pauses(p Pace) *wait.Backoff {
	return &wait.Backoff{Duration: p.Retry, Factor: 2, Jitter: jitter, Steps: math.MaxInt32, Cap: p.MaxRetry}
}

// ask looks at all devices, or at those of which nothing is known.
func (b *Book) ask(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.Pace.Limit)
	defer cancel()
	provider, err := b.recognise(ctx)
	if err != nil {
		return err
	}
	devices := b.due(all)
	if len(devices) == 0 {
		return nil
	}
	answers, err := provider.Look(ctx, devices)
	if err == nil {
		err = b.learn(ctx, devices, answers)
	}
	if err != nil {
		return fmt.Errorf("ask %s about the node's NICs: %w", provider.Name(), err)
	}
	if all {
		b.forgetOthers(devices)
	}
	return nil
}

func (b *Book) recognise(ctx context.Context) (Provider, error) {
	b.mu.Lock()
	provider := b.provider
	b.mu.Unlock()
	if provider != nil {
		return provider, nil
	}
	provider, err := detect(ctx, b.Candidates)
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("cloud recognised", "provider", provider.Name())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.provider = provider
	return provider, nil
}

func (b *Book) due(all bool) []Device {
	b.mu.Lock()
	defer b.mu.Unlock()
	devices := slices.Clone(b.devices)
	if all {
		return devices
	}
	return slices.DeleteFunc(devices, func(d Device) bool { _, known := b.answers[d.key()]; return known })
}

// learn takes over what was answered, and names the first device that was not.
func (b *Book) learn(ctx context.Context, devices []Device, answers []Answer) error {
	if len(answers) != len(devices) {
		return fmt.Errorf("%d answers to %d questions", len(answers), len(devices))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var failed []error
	changed := false
	for i, d := range devices {
		if answers[i].Err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", d.Name, answers[i].Err))
			continue
		}
		fresh := clean(answers[i])
		if known, ok := b.answers[d.key()]; ok && sameAnswer(known, fresh) {
			continue
		}
		for _, what := range fresh.Omitted {
			klog.FromContext(ctx).Info("left out of the cloud's answer", "device", d.Name, "what", what)
		}
		b.answers[d.key()], changed = fresh, true
	}
	if changed {
		b.save(ctx)
		signal(b.changed)
	}
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	}
	return fmt.Errorf("%w (and %d more devices)", failed[0], len(failed)-1)
}

func sameAnswer(a, b Answer) bool {
	return reflect.DeepEqual(a.Attributes, b.Attributes) && slices.Equal(a.Config, b.Config) &&
		slices.Equal(a.Omitted, b.Omitted)
}

// forgetOthers drops what is known of NICs that are gone.
func (b *Book) forgetOthers(devices []Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.answers {
		if !slices.ContainsFunc(devices, func(d Device) bool { return d.key() == key }) {
			delete(b.answers, key)
		}
	}
}

// tell says once that asking fails, and once that it works again. That a node
// is in no cloud at all is no failure.
func (b *Book) tell(ctx context.Context, err error) {
	log := klog.FromContext(ctx)
	b.mu.Lock()
	before := b.problem
	b.problem = err
	b.mu.Unlock()
	if fmt.Sprint(before) == fmt.Sprint(err) {
		return
	}
	switch {
	case err == nil && errors.Is(before, errNowhere):
		return
	case err == nil:
		log.Info("the cloud answers again")
	case errors.Is(err, errNowhere):
		log.Info("no attributes from a cloud", "reason", err.Error())
		return
	default:
		log.Error(err, "the cloud does not answer; what is known of the node's NICs stays published")
	}
	if b.Report != nil {
		b.Report(err)
	}
}
