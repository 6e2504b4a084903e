// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

// Options say which providers a Cache asks, and when.
type Options struct {
	// Candidates are the clouds the node may be in, the preferred one first. One
	// alone is taken without probing, unless Probe says otherwise; none makes a Cache
	// that stays empty.
	Candidates []Provider
	// Probe has one candidate alone probed, too.
	Probe bool
	// File keeps the answers over a restart of the agent; empty: nothing does.
	File string
	// BootID is /proc/sys/kernel/random/boot_id. A virtual machine may start
	// elsewhere, so what was learnt in another boot is forgotten.
	BootID string
	// Report is called with the error when lookups begin to fail, and with nil
	// when they work again; it may be nil.
	Report func(problem error)
	// Poll is how often the provider is asked.
	Poll PollConfig
}

// PollConfig is how often a provider is asked.
type PollConfig struct {
	// Refresh is the time between two lookups of everything.
	Refresh time.Duration
	// Retry is the time to the first retry. It doubles up to MaxRetry.
	Retry, MaxRetry time.Duration
	// Limit is how long one lookup may take.
	Limit time.Duration
}

// DefaultPollConfig asks a cloud little enough for a cluster of thousands of nodes.
func DefaultPollConfig() PollConfig {
	return PollConfig{Refresh: 5 * time.Minute, Retry: time.Second, MaxRetry: 5 * time.Minute, Limit: 30 * time.Second}
}

// Cache is what is known of a node's NICs from its cloud.
type Cache struct {
	Options
	changed, wake chan struct{}
	// first is closed when the provider was asked once, whatever came of it.
	first chan struct{}

	mu       sync.Mutex
	provider Provider // nil while unknown
	devices  []Device
	answers  map[string]Answer // by Device.key
	problem  error             // why asking fails; nil while it works
}

// Open makes a Cache that knows what its file says.
func Open(ctx context.Context, o Options) *Cache {
	c := &Cache{
		Options: o, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), first: make(chan struct{}),
		answers: map[string]Answer{},
	}
	if len(o.Candidates) == 1 && !o.Probe {
		c.provider = o.Candidates[0]
	}
	c.load(ctx)
	return c
}

// Changed receives after the answers have changed.
func (c *Cache) Changed() <-chan struct{} { return c.changed }

// Watch tells the Cache which NICs there are. New ones are asked about at once.
func (c *Cache) Watch(m *model.Machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.devices
	c.devices = devicesOf(m)
	isNew := func(d Device) bool {
		return !slices.ContainsFunc(known, func(k Device) bool { return k.key() == d.key() })
	}
	if slices.ContainsFunc(c.devices, isNew) {
		signal(c.wake)
	}
}

// Describe returns the machine with what is known of its NICs. The machine
// given stays as it is.
func (c *Cache) Describe(m *model.Machine) *model.Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	described := *m
	described.NICs = slices.Clone(m.NICs)
	for i, n := range described.NICs {
		if a, ok := c.answers[DeviceOf(n).key()]; ok {
			described.NICs[i].Attributes = a.Attributes
		}
	}
	return &described
}

// Config returns the weakest layer of parameters for a device, nil where there
// is none. It asks where it does not know: a pod must not run without what its
// cloud says.
func (c *Cache) Config(ctx context.Context, d Device) ([]byte, error) {
	if !slices.ContainsFunc(c.Candidates, func(p Provider) bool { return p.Configures(d) }) {
		return nil, nil
	}
	select {
	case <-c.first:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the cloud to be recognised: %w", context.Cause(ctx))
	}
	c.mu.Lock()
	provider := c.provider
	a, known := c.answers[d.key()]
	c.mu.Unlock()
	if known || provider == nil || !provider.Configures(d) {
		return a.Config, nil
	}
	answers, err := provider.Lookup(ctx, []Device{d})
	if err == nil {
		err = c.learn(ctx, []Device{d}, answers)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for the parameters of %s: %w", provider.Name(), d.Name, err)
	}
	return answers[0].Config, nil
}

// signal makes sure that the reader of c wakes up.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
