// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// dhcpTime bounds the wait for a DHCP server. The kubelet asks again.
const dhcpTime = 10 * time.Second

func (d *Driver) stageDevice(ctx context.Context, look *hoststate.Look, record *driver.DeviceRecord, pods []driver.PodRef) error {
	brief, err := readBrief(*record)
	if err != nil || brief.Host == nil {
		return err
	}
	link, err := look.Find(brief.onHost())
	if err != nil || link == nil {
		return err // in the pod already, where attaching looks for it
	}
	known := len(brief.Host.Routes)
	if err := look.Refresh(link, brief.Host); err != nil {
		return err
	}
	if brief.Stage == nil && brief.Host.Key == "" && len(brief.Host.Routes) == known {
		return nil // nothing to do, and nothing new
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

// dropPrograms takes off what an owner has put on a NIC again since it was
// staged. He knows how to put it on once more.
func dropPrograms(pod *podstate.Pod, index int, plan Plan) error {
	if plan.Stage == nil || !plan.Stage.Programs {
		return nil
	}
	late, err := bpf.List(pod.Fd(), pod.Conn, index, "")
	if err == nil {
		err = bpf.Detach(pod.Fd(), pod.Conn, index, late)
	}
	if err != nil {
		return fmt.Errorf("interface.disableEbpfPrograms: %w", err)
	}
	return nil
}

// stageLease asks for an address with the MAC that the pod will use.
func (d *Driver) stageLease(ctx context.Context, link *rtnl.Link, plan *Plan, pods []driver.PodRef) error {
	if l := plan.Stage.Lease; l != nil && podstate.Lives(l, d.now()) {
		return nil
	}
	mac := rtnl.Settings{MAC: plan.Pod.Settings.MAC}.Beyond(link.Settings)
	if mac.MAC != nil {
		down := false
		if err := d.host.Set(link.Index, rtnl.Change{Up: &down}); err != nil {
			return fmt.Errorf("interface %s down: %w", link.Name, err)
		}
		link.Up = false
		if err := d.host.Set(link.Index, rtnl.Change{Settings: mac}); err != nil {
			return fmt.Errorf("interface.hardwareAddr: %w", err)
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
