// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Sources of the layers of parameters that come from a cloud, weakest first.
// Those of device class and claim lie above them.
const (
	SourceCloud   = "cloud"
	SourceProfile = "profile"
)

// Profiles puts the cloud's layers of parameters below those of a claim. What a
// profile was resolved to is on disk before it is used: resolving again gives the
// same, and what the provider reserved for it is released in the end.
type Profiles struct {
	// Provider resolves profiles; nil: a claim that names one is refused.
	Provider Profiler
	// Base returns a device's own layer (Cache.Config); nil: there is none.
	Base func(context.Context, Device) ([]byte, error)
	// Machine is the newest scan of the host.
	Machine func() *model.Machine
	// Dir holds one file for each claim with a profile.
	Dir string
	// Lock keeps all others, in this process and in others, from preparing or
	// unpreparing a claim. Resolve and Release are called with it held.
	Lock func(context.Context, types.UID) (unlock func(), err error)
	// Poll is how often a release is retried while the provider is away.
	Poll PollConfig

	once sync.Once
	wake chan struct{}
}

// Resolve returns the claim with the cloud's layers added to each device's.
func (p *Profiles) Resolve(ctx context.Context, c driver.Claim) (driver.Claim, error) {
	c.Devices = slices.Clone(c.Devices)
	known, err := p.read(c.UID)
	if err != nil {
		return c, err
	}
	if known != nil && known.Ended {
		// The same claim was allocated before. To release it after this
		// would take away what it is given now.
		if err := p.releaseClaim(ctx, known); err != nil {
			return c, fmt.Errorf("what its profile gave it before is not given back yet: %w", err)
		}
		known = nil
	}
	for i := range c.Devices {
		if c.Devices[i].AdminAccess {
			continue
		}
		layers, resolved, err := p.layers(ctx, c, c.Devices[i], known)
		if err != nil {
			return c, fmt.Errorf("device %s: %w", c.Devices[i].Device, err)
		}
		if resolved != nil {
			if known, err = p.remember(known, c.ClaimRef, *resolved); err != nil {
				return c, err
			}
		}
		c.Devices[i].Configs = layers
	}
	return c, nil
}

// layers are all layers of one device, and what was newly resolved for it.
func (p *Profiles) layers(ctx context.Context, c driver.Claim, a driver.Allocation, known *resolutions) ([]driver.Config, *resolution, error) {
	d := Device{Name: a.Device}
	if n := slicecodec.FindNIC(p.Machine(), a.Device); n != nil {
		d = DeviceOf(*n)
	}
	base, merged, err := p.base(ctx, d, a.Configs)
	if err != nil {
		return nil, nil, err
	}
	if merged.Profile == nil {
		return slices.Concat(base, a.Configs), nil, nil
	}
	if p.Provider == nil {
		return nil, nil, fmt.Errorf("profile: %q: this node resolves no profiles: start its agent with --profile-provider, or leave the profile out", *merged.Profile)
	}
	r := known.find(d, a, merged)
	var fresh *resolution
	if r == nil {
		answer, err := p.Provider.Profile(ctx, ProfileRequest{Device: d, Claim: c.Object, ShareID: shareOf(a), Config: merged})
		if err != nil {
			return nil, nil, fmt.Errorf("profile: %q: %w", *merged.Profile, err)
		}
		fresh = &resolution{Request: a.Request, Release: ReleaseRequest{Device: d, ClaimUID: c.UID, ShareID: shareOf(a), Config: merged}, Answer: answer}
		r = fresh
	}
	profile := driver.Config{Source: SourceProfile, Raw: r.Answer}
	if len(r.Answer) == 0 {
		profile.Raw = []byte("{}") // resolved to nothing is not the same as not resolved
	}
	above := slices.Concat([]driver.Config{profile}, a.Configs)
	if merged.Interface.VRF == nil {
		// A VRF may be the profile's. What the profile is known by stays as it was.
		base, err = below(base, above)
	}
	return slices.Concat(base, above), fresh, err
}

// below is a device's own layer as it is with the layers above it.
func below(base, above []driver.Config) ([]driver.Config, error) {
	merged, err := merge(above)
	if err != nil || len(base) == 0 || merged.Interface.VRF == nil {
		return base, err
	}
	raw, err := belowVRF(base[0].Raw)
	return []driver.Config{{Source: SourceCloud, Raw: raw}}, err
}

// base is the device's own layer, if it has one, and what it and the layers above it
// merge to.
func (p *Profiles) base(ctx context.Context, d Device, above []driver.Config) ([]driver.Config, *v1alpha1.NetworkConfig, error) {
	merged, err := merge(above)
	if err != nil || p.Base == nil {
		return nil, merged, err
	}
	raw, err := p.Base(ctx, d)
	if err != nil || len(raw) == 0 {
		return nil, merged, err
	}
	base, err := below([]driver.Config{{Source: SourceCloud, Raw: raw}}, above)
	if err != nil {
		return nil, nil, err
	}
	merged, err = merge(slices.Concat(base, above))
	return base, merged, err
}

// belowVRF is the cloud's layer for an interface that goes into a VRF. The VRF
// brings the rule that leads to its own table, so that what the cloud's rules lead to
// stands there. The number of the table is the interface's own, and as the metric it
// tells the routes of two interfaces in one VRF apart.
func belowVRF(raw []byte) ([]byte, error) {
	c, err := v1alpha1.DecodeNetworkConfig(raw)
	if err != nil || len(c.Rules) == 0 {
		return raw, err
	}
	c.Rules = nil
	for i := range c.Routes {
		c.Routes[i].Metric, c.Routes[i].Table = c.Routes[i].Table, nil
	}
	return json.Marshal(c)
}

func merge(layers []driver.Config) (*v1alpha1.NetworkConfig, error) {
	decoded, err := driver.DecodeLayers(layers, v1alpha1.DecodeNetworkConfig)
	if err != nil {
		return nil, err
	}
	return v1alpha1.MergeNetworkConfigs(decoded...), nil
}

// Release notes that a claim has ended, and wakes Run to call the provider. It does
// not wait for that: a pod's end must not depend on a webhook.
func (p *Profiles) Release(_ context.Context, c driver.ClaimRef) error {
	known, err := p.read(c.UID)
	if err != nil || known == nil {
		return err
	}
	known.Ended = true
	if err := p.write(known); err != nil {
		return err
	}
	signal(p.awake())
	return nil
}

func (p *Profiles) awake() chan struct{} {
	p.once.Do(func() { p.wake = make(chan struct{}, 1) })
	return p.wake
}

// releaseClaim releases all of a claim's devices at the provider, and removes the
// claim's file.
func (p *Profiles) releaseClaim(ctx context.Context, known *resolutions) error {
	if p.Provider == nil {
		return errors.New("this node resolves no profiles any more: start its agent with --profile-provider as before")
	}
	var errs []error
	for _, r := range known.Devices {
		if err := p.Provider.Release(ctx, r.Release); err != nil {
			errs = append(errs, fmt.Errorf("release profile of %s: %w", r.Release.Device.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return p.forget(known.Claim.UID)
}
