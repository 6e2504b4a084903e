// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/ethtool"
)

// stageOf is the work on the device that a configuration asks for; nil for
// none.
func stageOf(c *v1alpha1.NetworkConfig, seen *hoststate.Seen) (*Stage, error) {
	s := Stage{DHCP: podstate.DHCP(c)}
	if off := c.Interface.DisableEBPFPrograms; off != nil {
		s.Programs = *off
	}
	var errs []error
	if c.Ethtool != nil && len(c.Ethtool.Features) > 0 {
		var err error
		if s.Features, err = ethtool.Expand(c.Ethtool.Features, seen.Features); err != nil {
			errs = append(errs, fmt.Errorf("ethtool.features: %w", err))
		}
	}
	if c.Ethtool != nil && len(c.Ethtool.PrivateFlags) > 0 {
		errs = append(errs, checkPrivateFlags(c.Ethtool.PrivateFlags, &seen.State))
		s.PrivateFlags = c.Ethtool.PrivateFlags
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(s.Features)+len(s.PrivateFlags) == 0 && !s.Programs && !s.DHCP {
		return nil, nil
	}
	return &s, nil
}

// checkPrivateFlags refuses flags that the NIC lacks.
func checkPrivateFlags(want map[string]bool, host *hoststate.State) error {
	var unknown []string
	for name := range want {
		if _, known := host.PrivateFlags[name]; !known {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	has := "none"
	if len(host.PrivateFlags) > 0 {
		has = strings.Join(slices.Sorted(maps.Keys(host.PrivateFlags)), ", ")
	}
	return fmt.Errorf("ethtool.privateFlags: %s: interface %s has %s", strings.Join(unknown, ", "), host.Name, has)
}

// Stage does what belongs to the devices and what takes time, all of them at
// once. When one fails, all are as before.
func (d *Driver) Stage(ctx context.Context, r driver.Record) (driver.Record, error) {
	look, err := d.host.Look()
	if err != nil {
		return r, fmt.Errorf("stage claim %s: %w", r.Claim, err)
	}
	r.Devices = slices.Clone(r.Devices)
	errs := make([]error, len(r.Devices))
	var wait sync.WaitGroup
	for i := range r.Devices {
		wait.Go(func() {
			if err := d.stageDevice(ctx, look, &r.Devices[i], r.Pods); err != nil {
				errs[i] = fmt.Errorf("device %s: %w", r.Devices[i].Device, err)
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		return r, fmt.Errorf("stage claim %s: %w", r.Claim, errors.Join(err, d.unstage(undo, r)))
	}
	return r, nil
}
