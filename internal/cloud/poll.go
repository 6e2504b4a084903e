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
func (c *Cache) Run(ctx context.Context) {
	asked := sync.OnceFunc(func() { close(c.first) })
	defer asked()
	if len(c.Candidates) == 0 {
		return
	}
	pause, next := backoff(c.Poll), time.Now()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
			all = true
		case <-c.wake:
		}
		err := c.ask(ctx, all)
		asked()
		if ctx.Err() != nil {
			return
		}
		c.reportChange(ctx, err)
		switch retry := time.Now().Add(pause.Step()); {
		case err != nil && (all || retry.Before(next)):
			next = retry
		case err == nil:
			pause = backoff(c.Poll)
			if all {
				next = time.Now().Add(wait.Jitter(c.Poll.Refresh, jitter))
			}
		}
	}
}

// ask looks at all devices, or at those of which nothing is known.
func (c *Cache) ask(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.Poll.Limit)
	defer cancel()
	provider, err := c.recognise(ctx)
	if err != nil {
		return err
	}
	devices := c.due(all)
	if len(devices) == 0 {
		return nil
	}
	answers, err := provider.Lookup(ctx, devices)
	if err == nil {
		err = c.learn(ctx, devices, answers)
	}
	if err != nil {
		return fmt.Errorf("ask %s about the node's NICs: %w", provider.Name(), err)
	}
	if all {
		c.forgetOthers(devices)
	}
	return nil
}

func (c *Cache) recognise(ctx context.Context) (Provider, error) {
	c.mu.Lock()
	provider := c.provider
	c.mu.Unlock()
	if provider != nil {
		return provider, nil
	}
	provider, err := detect(ctx, c.Candidates)
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("cloud recognised", "provider", provider.Name())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.provider = provider
	return provider, nil
}

func (c *Cache) due(all bool) []Device {
	c.mu.Lock()
	defer c.mu.Unlock()
	devices := slices.Clone(c.devices)
	if all {
		return devices
	}
	return slices.DeleteFunc(devices, func(d Device) bool { _, known := c.answers[d.key()]; return known })
}

// learn takes over what was answered, and names the first device that was not.
func (c *Cache) learn(ctx context.Context, devices []Device, answers []Answer) error {
	if len(answers) != len(devices) {
		return fmt.Errorf("%d answers to %d questions", len(answers), len(devices))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed []error
	changed := false
	for i, d := range devices {
		if answers[i].Err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", d.Name, answers[i].Err))
			continue
		}
		fresh := sanitize(answers[i])
		if known, ok := c.answers[d.key()]; ok && sameAnswer(known, fresh) {
			continue
		}
		for _, what := range fresh.Omitted {
			klog.FromContext(ctx).Info("left out of the cloud's answer", "device", d.Name, "what", what)
		}
		c.answers[d.key()], changed = fresh, true
	}
	if changed {
		c.save(ctx)
		signal(c.changed)
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
func (c *Cache) forgetOthers(devices []Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.answers {
		if !slices.ContainsFunc(devices, func(d Device) bool { return d.key() == key }) {
			delete(c.answers, key)
		}
	}
}

// reportChange logs and reports once that lookups fail, and once that they work
// again. That a node is in no cloud at all is no failure.
func (c *Cache) reportChange(ctx context.Context, err error) {
	log := klog.FromContext(ctx)
	c.mu.Lock()
	before := c.problem
	c.problem = err
	c.mu.Unlock()
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
	if c.Report != nil {
		c.Report(err)
	}
}

// backoff are the times between retries.
func backoff(p PollConfig) *wait.Backoff {
	return &wait.Backoff{Duration: p.Retry, Factor: 2, Jitter: jitter, Steps: math.MaxInt32, Cap: p.MaxRetry}
}
