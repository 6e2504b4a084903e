// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// VF is a NIC that is a virtual function, and those of its settings at the physical one
// that a configuration changes, as they were.
//
// Drivers differ in the MAC, and one order suits them all: it is freed (FreeMAC), the
// function sets its own, and the physical function sets the same (SetMAC).
//
//   - igb and i40e refuse a function that is not trusted every other MAC than the
//     administrator's, igb that one too, until it is freed. They tell the MAC in use for
//     the administrator's (igb_set_vf_mac_addr; i40e_update_vf_mac_addr): that it is the
//     wanted one does not say that the function cannot choose another.
//   - igbvf takes the MAC in use for the permanent one each time that the function is set
//     down (igbvf_reset): after a claim it may tell the pod's until the next time.
//   - i40e resets the function at each setting of MAC, VLAN and trust, and answers EAGAIN
//     when it meets a reset (i40e_ndo_set_vf_mac).
//   - mlx5 tells what the administrator set. A function keeps the MAC that it has until its
//     driver starts again, and may set another, whose packets spoof checking drops
//     (mlx5_esw_set_vport_mac_locked). Older ones refuse to free it beside spoof checking,
//     and the function then sets its own all the same.
type VF struct {
	// PF is the physical function as the inventory knew it.
	PF model.NIC `json:"pf"`
	// PCI is the function's own address. Its number, that of "ip link set PF vf N", may
	// be another after the physical function made its virtual ones anew.
	PCI      model.PCIAddress `json:"pci"`
	Settings rtnl.VFSettings  `json:"settings"`
}

// VFSetter reads and sets virtual functions through the link of their physical one.
type VFSetter interface {
	VFs(index int) ([]rtnl.VF, error)
	SetVF(index, number int, s rtnl.VFSettings) error
}

// ReadVF returns what the physical function tells of a virtual one.
func (h *Host) ReadVF(v *VF) (rtnl.VFSettings, error) {
	p, err := h.physical(v)
	return p.now, err
}

// port is a virtual function as its physical one knows it now.
type port struct {
	// index is the link's of the physical function.
	index, number int
	now           rtnl.VFSettings
}

// physical finds the link of the physical function, and what it tells.
func (h *Host) physical(v *VF) (p port, err error) {
	id := nslink.IdentityOf(v.PF, nil)
	if i := v.PF.Interface; i != nil {
		id = id.OnHost(i.Name, i.Index)
	}
	link, err := h.Find(id)
	if err != nil {
		return p, err
	}
	if link == nil {
		return p, fmt.Errorf("the host's network namespace has no interface of its physical function %s", v.PF)
	}
	number, err := sysfs.VFIndex(h.Sys, *v.PF.PCI, v.PCI)
	if err != nil {
		return p, err
	}
	if number == nil {
		return p, fmt.Errorf("%s is none of the virtual functions of %s", v.PCI, v.PF)
	}
	all, err := h.vfs().VFs(link.Index)
	if err != nil {
		return p, err
	}
	for _, vf := range all {
		if vf.Number == *number {
			return port{link.Index, *number, vf.VFSettings}, nil
		}
	}
	return p, fmt.Errorf("physical function %s tells nothing of its virtual function %d", v.PF, *number)
}

// vfs is the kernel, where a test sets nothing else.
func (h *Host) vfs() VFSetter {
	if h.VFs == nil {
		return h.Conn
	}
	return h.VFs
}

// set changes settings of a virtual function.
func (h *Host) set(p port, s rtnl.VFSettings) error {
	return AwaitReset(func() error { return h.vfs().SetVF(p.index, p.number, s) })
}

// A reset of a virtual function takes some hundred milliseconds.
const (
	resetPoll = 50 * time.Millisecond
	resetTime = 2 * time.Second
)

// AwaitReset repeats what drivers refuse while a virtual function is reset.
func AwaitReset(do func() error) error {
	for end := time.Now().Add(resetTime); ; time.Sleep(resetPoll) {
		err := do()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// SetVF sets what is not as it shall be of a virtual function. It does nothing for nil.
func (h *Host) SetVF(v *VF, want rtnl.VFSettings) error {
	if v == nil || want.None() {
		return nil
	}
	p, err := h.physical(v)
	if err != nil {
		return err
	}
	if want = want.Beyond(p.now); want.None() {
		return nil
	}
	return h.set(p, want)
}

// FreeMAC lets a virtual function set another MAC itself, where its configuration gives
// it one. After an error it may be able to all the same.
func (h *Host) FreeMAC(v *VF) error {
	if !v.SetsMAC() {
		return nil
	}
	none := rtnl.NoMAC
	return h.SetVF(v, rtnl.VFSettings{MAC: &none})
}

// SetMAC sets the MAC of a virtual function through the physical one, so that whoever
// has the function cannot choose another, whatever the physical function tells.
func (h *Host) SetMAC(v *VF, mac *string) error {
	if !v.SetsMAC() {
		return nil
	}
	p, err := h.physical(v)
	if err != nil {
		return err
	}
	return h.set(p, rtnl.VFSettings{MAC: mac})
}

// SetsMAC tells whether the physical function sets the MAC.
func (v *VF) SetsMAC() bool { return v != nil && v.Settings.MAC != nil }

// restoreVF restores the MAC, and with device what staging set. again sets the MAC also
// where the function tells it already.
func (h *Host) restoreVF(v *VF, again, device bool) error {
	if v == nil {
		return nil
	}
	p, err := h.physical(v)
	if err != nil {
		return err
	}
	want := v.Settings.Beyond(p.now)
	if !device {
		want = rtnl.VFSettings{MAC: want.MAC}
	}
	if v.SetsMAC() && again && *v.Settings.MAC != rtnl.NoMAC {
		want.MAC = v.Settings.MAC
	}
	if want.None() {
		return nil
	}
	if err := h.set(p, want); err != nil {
		return fmt.Errorf("restore through %s: %w", v.PF, err)
	}
	if p, err = h.physical(v); err != nil {
		return err
	}
	want.MAC = nil // some drivers tell the one in use, which may follow later
	if want = want.Beyond(p.now); !want.None() {
		return fmt.Errorf("verify virtual function %s: %s is not as it was", v.PCI, want)
	}
	return nil
}
