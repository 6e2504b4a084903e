// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// vfFacts is what the physical function tells of a NIC that is a virtual one, or why
// nobody can know.
type vfFacts struct {
	vf  *hoststate.VF
	now rtnl.VFSettings
	err error
}

// readVF reads what the physical function of a NIC tells of it; nil where the NIC is no
// virtual function.
func (d *Driver) readVF(m *model.Machine, nic *model.NIC) *vfFacts {
	if nic.PCI == nil {
		return nil
	}
	f := m.Function(*nic.PCI)
	if f == nil || f.PhysicalFunction == nil {
		return nil
	}
	if f.VFIndex == nil {
		return &vfFacts{err: fmt.Errorf("the kernel does not say which virtual function of %s it is", f.PhysicalFunction)}
	}
	k := &vfFacts{vf: &hoststate.VF{PF: model.NIC{PCI: f.PhysicalFunction}, PCI: *nic.PCI}}
	found := 0
	for _, other := range m.NICs {
		if other.PCI != nil && *other.PCI == *f.PhysicalFunction && other.Interface != nil {
			k.vf.PF, found = other, found+1
		}
	}
	switch found {
	case 0:
		k.err = fmt.Errorf("its physical function %s has no interface on this host", f.PhysicalFunction)
	case 1:
		k.now, k.err = d.host.ReadVF(k.vf)
	default:
		k.err = fmt.Errorf("its physical function %s has %d interfaces, and nothing says which is the virtual one's", f.PhysicalFunction, found)
	}
	return k
}

// vfPlan is what is recorded and what is staged of a virtual function; nil for nothing.
// mac is the one that the configuration gives the NIC.
func vfPlan(c *v1alpha1.NetworkConfig, k *vfFacts, mac *string) (*hoststate.VF, *rtnl.VFSettings, error) {
	asked := c.Interface.VF != nil && *c.Interface.VF != v1alpha1.VFConfig{}
	switch {
	case !asked && (mac == nil || k == nil || k.err != nil):
		return nil, nil, nil // a MAC can be set of the NIC itself, as of any other
	case k == nil:
		return nil, nil, errors.New("interface.vf: the NIC is no virtual function: leave it out")
	case k.err != nil:
		return nil, nil, fmt.Errorf("interface.vf: %w", k.err)
	}
	var want rtnl.VFSettings
	if asked {
		var err error
		if want, err = vfSettings(c.Interface.VF, k.now); err != nil {
			return nil, nil, err
		}
	}
	vf := *k.vf
	vf.Settings = before(want, k.now)
	if mac != nil {
		vf.Settings.MAC = k.now.MAC
	}
	if vf.Settings.None() {
		return nil, nil, nil
	}
	if want.None() {
		return &vf, nil, nil
	}
	return &vf, &want, nil
}

// before are those of the present settings that others would change.
func before(want, now rtnl.VFSettings) rtnl.VFSettings {
	var s rtnl.VFSettings
	if want.VLAN != nil {
		s.VLAN = now.VLAN
	}
	if want.Rate != nil {
		s.Rate = now.Rate
	}
	if want.SpoofCheck != nil {
		s.SpoofCheck = now.SpoofCheck
	}
	if want.Trust != nil {
		s.Trust = now.Trust
	}
	return s
}

// vfSettings are those that a configuration asks for. One that the driver of the physical
// function does not tell is refused, as nobody could put it back.
func vfSettings(c *v1alpha1.VFConfig, now rtnl.VFSettings) (rtnl.VFSettings, error) {
	want := rtnl.VFSettings{SpoofCheck: c.SpoofCheck, Trust: c.Trust}
	var errs []error
	untold := func(name string, asked, told bool) {
		if asked && !told {
			errs = append(errs, fmt.Errorf("interface.vf.%s: the driver of the physical function does not tell it: leave it out", name))
		}
	}
	rate := c.MinTxRate != nil || c.MaxTxRate != nil
	untold("vlan", c.VLAN != nil, now.VLAN != nil)
	untold("maxTxRate", rate, now.Rate != nil)
	untold("spoofCheck", c.SpoofCheck != nil, now.SpoofCheck != nil)
	untold("trust", c.Trust != nil, now.Trust != nil)
	if err := errors.Join(errs...); err != nil {
		return want, err
	}
	if c.VLAN != nil {
		want.VLAN = &rtnl.VFVLAN{ID: uint32(*c.VLAN), Protocol: unix.ETH_P_8021Q}
		if c.VLANQoS != nil {
			want.VLAN.QoS = uint32(*c.VLANQoS)
		}
	}
	if rate {
		both := *now.Rate
		if c.MinTxRate != nil {
			both.Min = uint32(*c.MinTxRate)
		}
		if c.MaxTxRate != nil {
			both.Max = uint32(*c.MaxTxRate)
		}
		if both.Max > 0 && both.Min > both.Max {
			return want, fmt.Errorf("interface.vf.minTxRate: %d is more than the most that the function may send, %d: want both", both.Min, both.Max)
		}
		want.Rate = &both
	}
	return want, nil
}

// stageVF sets what a configuration asks of a virtual function.
func (d *Driver) stageVF(plan *Plan) error {
	if plan.Stage == nil || plan.Stage.VF == nil {
		return nil
	}
	if err := d.host.SetVF(plan.Host.VF, *plan.Stage.VF); err != nil {
		return fmt.Errorf("interface.vf: %s: %w", plan.Stage.VF, err)
	}
	return nil
}
