// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// stageOf is the work on the device that a configuration asks for; nil for
// none.
func stageOf(c *v1alpha1.NetworkConfig, seen *hoststate.HostNIC) (*Stage, error) {
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
	snapshot, err := d.host.Snapshot()
	if err != nil {
		return r, fmt.Errorf("stage claim %s: %w", r.Claim, err)
	}
	r.Devices = slices.Clone(r.Devices)
	errs := make([]error, len(r.Devices))
	var wait sync.WaitGroup
	for i := range r.Devices {
		wait.Go(func() {
			if err := d.stageDevice(ctx, snapshot, &r.Devices[i], r.Pods); err != nil {
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

// dhcpTime bounds the wait for a DHCP server. The kubelet retries Prepare.
const dhcpTime = 10 * time.Second

func (d *Driver) stageDevice(ctx context.Context, snapshot *hoststate.Snapshot, record *driver.DeviceRecord, pods []driver.PodRef) error {
	brief, err := readBrief(*record)
	if err != nil || brief.Host == nil {
		return err
	}
	link, err := snapshot.Find(brief.onHost())
	if err != nil || link == nil {
		return err // not on the host: Attach looks for it in the pod
	}
	known := len(brief.Host.Routes)
	if err := snapshot.Refresh(link, brief.Host); err != nil {
		return err
	}
	if brief.Stage == nil && brief.Host.Key == "" && len(brief.Host.Routes) == known {
		return nil // nothing to stage, and no new routes
	}
	plan, err := ReadPlan(*record)
	if err != nil {
		return err
	}
	plan.Host.Routes = brief.Host.Routes
	if err := d.stagePrograms(link, &plan); err != nil {
		return err
	}
	if s := plan.Stage; s != nil {
		if err := d.stageVF(&plan); err != nil { // a lease is of the VLAN's network
			return err
		}
		if err := d.stageSettings(link, s); err != nil {
			return err
		}
		if s.DHCP {
			if err := d.stageLease(ctx, link, &plan, pods); err != nil {
				return err
			}
		}
	}
	record.Plan, err = json.Marshal(plan)
	return err
}

func (d *Driver) stageSettings(link *rtnl.Link, s *Stage) error {
	if len(s.Features) > 0 {
		if err := d.host.Ethtool.SetFeatures(link.Name, s.Features); err != nil {
			return fmt.Errorf("ethtool.features: %w", err)
		}
		d.host.Step()
	}
	if len(s.PrivateFlags) > 0 {
		if err := d.host.Ethtool.SetPrivateFlags(link.Name, s.PrivateFlags); err != nil {
			return fmt.Errorf("ethtool.privateFlags: %w", err)
		}
		d.host.Step()
	}
	return nil
}

// stagePrograms holds the programs on the device, and takes them off if the
// configuration says so.
func (d *Driver) stagePrograms(link *rtnl.Link, plan *Plan) error {
	if plan.Host.Key == "" {
		return nil
	}
	var err error
	if plan.Host.Programs, err = d.host.Programs.Hold(plan.Host.Key, plan.Host.Programs); err != nil {
		return fmt.Errorf("keep the eBPF programs of interface %s: %w", link.Name, err)
	}
	d.host.Step()
	if plan.Stage == nil || !plan.Stage.Programs {
		return nil
	}
	if err := bpf.Detach(d.host.Fd(), d.host.Conn, link.Index, plan.Host.Programs); err != nil {
		return fmt.Errorf("interface.disableEbpfPrograms: %w", err)
	}
	d.host.Step()
	return nil
}

// stageLease asks for an address with the MAC that the pod will use.
func (d *Driver) stageLease(ctx context.Context, link *rtnl.Link, plan *Plan, pods []driver.PodRef) error {
	if l := plan.Stage.Lease; l != nil && podstate.LeaseValid(l, d.now()) {
		return nil
	}
	mac := rtnl.Settings{MAC: plan.Pod.Settings.MAC}.Beyond(link.Settings)
	if mac.MAC != nil {
		down := false
		if err := d.host.Set(link.Index, rtnl.Change{Up: &down}); err != nil {
			return fmt.Errorf("interface %s down: %w", link.Name, err)
		}
		link.Up = false
		free := d.host.FreeMAC(plan.Host.VF)
		if err := d.host.Set(link.Index, rtnl.Change{Settings: mac}); err != nil {
			return fmt.Errorf("interface.hardwareAddr: %w", errors.Join(err, free))
		}
	}
	if !link.Up {
		up := true
		if err := d.host.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
			return fmt.Errorf("interface %s up: %w", link.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dhcpTime)
	defer cancel()
	lease, err := dhcp.Acquire(ctx, d.host.Fd(), link.Name, d.dhcpOptions(pods))
	if err != nil {
		return fmt.Errorf("interface.dhcp: %w", err)
	}
	d.host.Step()
	plan.Stage.Lease = &lease
	return nil
}

func (d *Driver) dhcpOptions(pods []driver.PodRef) dhcp.Options {
	o := dhcp.Options{Now: d.now}
	if len(pods) > 0 {
		o.Hostname = pods[0].Name
	}
	return o
}

// Unstage makes the devices what they were, and gives leases back. They are on
// the host.
func (d *Driver) Unstage(ctx context.Context, r driver.Record) error {
	if err := d.unstage(ctx, r); err != nil {
		return fmt.Errorf("unstage claim %s: %w", r.Claim, err)
	}
	return nil
}

func (d *Driver) unstage(ctx context.Context, r driver.Record) error {
	plans, err := plansOf(r)
	errs := []error{err}
	links, err := d.host.Links()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	var nics []hoststate.ReturnedNIC
	for _, plan := range plans {
		if plan.Host == nil {
			continue
		}
		link, err := plan.onHost().Find(links)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if link == nil {
			continue // Detach says so, unless there will never be one again
		}
		errs = append(errs, d.releaseLease(ctx, link, plan))
		nics = append(nics, hoststate.ReturnedNIC{ID: plan.onHost(), Want: plan.Host, Device: true})
	}
	return errors.Join(append(errs, d.host.Restore(links, nics, d.now()))...)
}

// releaseLease releases a lease that has not expired. There is no answer: a server that
// did not receive the message frees the address when the lease expires.
func (d *Driver) releaseLease(ctx context.Context, link *rtnl.Link, plan Plan) error {
	if plan.Stage == nil || !plan.Stage.DHCP {
		return nil
	}
	if lease := plan.lease(); lease != nil && podstate.LeaseValid(lease, d.now()) {
		if err := d.setUp(link, true); err != nil {
			return err
		}
		if err := dhcp.Release(ctx, d.host.Fd(), link.Name, *lease); err != nil {
			return fmt.Errorf("interface %s: release %s: %w", link.Name, lease.Address, err)
		}
	}
	if plan.Host.Up {
		return nil
	}
	return d.setUp(link, false) // stageLease set it up
}

func (d *Driver) setUp(link *rtnl.Link, up bool) error {
	if link.Up == up {
		return nil
	}
	if err := d.host.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
		return fmt.Errorf("interface %s up: %t: %w", link.Name, up, err)
	}
	link.Up = up
	return nil
}
