// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/model"
)

// Plan is what DeviceRecord.Plan holds: one NIC, as it was and as it shall be.
type Plan struct {
	// NIC is the device as the inventory knew it when it was taken.
	NIC model.NIC `json:"nic"`
	// Alone: its PCI function had no other interface.
	Alone bool `json:"alone,omitempty"`
	// Host and Pod are nil where no interface moves: for an RDMA device without
	// one, and under admin access.
	Host *hoststate.State `json:"host,omitempty"`
	Pod  *podstate.State  `json:"pod,omitempty"`
	// Stage is what is done before the pod has a namespace; nil for nothing.
	Stage *Stage `json:"stage,omitempty"`
	// RDMA is what becomes of the RDMA device; nil where it stays as it is.
	RDMA *RDMA `json:"rdma,omitempty"`
}

// Stage is the work on a device before it leaves the host.
type Stage struct {
	// Features and PrivateFlags are those to set, by the device's own names.
	Features     map[string]bool `json:"features,omitempty"`
	PrivateFlags map[string]bool `json:"privateFlags,omitempty"`
	// Programs takes the eBPF programs off.
	Programs bool `json:"programs,omitempty"`
	// DHCP asks for an address, and Lease is the answer.
	DHCP  bool        `json:"dhcp,omitempty"`
	Lease *dhcp.Lease `json:"lease,omitempty"`
}

// RDMA is an RDMA device that goes another way than its interface.
type RDMA struct {
	Name string `json:"name"`
	// Exclusive moves the device: the node's RDMA devices are seen in one
	// namespace only (rdma system set netns exclusive).
	Exclusive bool `json:"exclusive,omitempty"`
	// Software is its kind, such as rxe: the kernel deletes it when its
	// interface moves, so that it is made again.
	Software string `json:"software,omitempty"`
}

// ReadPlan is the plan of one device of a record.
func ReadPlan(d driver.DeviceRecord) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(d.Plan, &p); err != nil {
		return Plan{}, fmt.Errorf("device %s: read its plan: %w", d.Device, err)
	}
	return p, nil
}

// readBrief is ReadPlan without the host's many settings, which are most of a plan
// and which restoring alone needs: nothing may be restored from it.
func readBrief(d driver.DeviceRecord) (Plan, error) {
	var host *struct {
		hoststate.State
		// These hide the fields of the same names.
		Sysctls  skipped `json:"sysctls"`
		Features skipped `json:"features"`
	}
	p := struct {
		Plan
		Host any `json:"host"`
	}{Host: &host}
	if err := json.Unmarshal(d.Plan, &p); err != nil {
		return Plan{}, fmt.Errorf("device %s: read its plan: %w", d.Device, err)
	}
	if host != nil {
		p.Plan.Host = &host.State
	}
	return p.Plan, nil
}

// skipped is JSON that nobody looks at.
type skipped struct{}

// UnmarshalJSON takes anything.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// HeldNICs are the NICs that a record holds, as they were when they were taken.
func HeldNICs(r driver.Record) ([]model.NIC, error) {
	var held []model.NIC
	for _, d := range r.Devices {
		if d.AdminAccess {
			continue
		}
		p, err := readBrief(d)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", r.Claim, err)
		}
		held = append(held, p.NIC)
	}
	return held, nil
}

// MovedNIC is a NIC that a record puts into the pod's namespace.
type MovedNIC struct {
	// Device is its name in the record.
	Device string
	NIC    model.NIC
	// Alone: its PCI function has no other interface.
	Alone bool
	// GivenMAC is the MAC that the configuration gives it; nil when it keeps its
	// own.
	GivenMAC *string
}

// Moved are the NICs that are in the pod's namespace while the record is
// attached.
func Moved(r driver.Record) ([]MovedNIC, error) {
	var moved []MovedNIC
	for _, d := range r.Devices {
		p, err := readBrief(d)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", r.Claim, err)
		}
		if p.Pod != nil {
			moved = append(moved, MovedNIC{Device: d.Device, NIC: p.NIC, Alone: p.Alone, GivenMAC: p.Pod.Settings.MAC})
		}
	}
	return moved, nil
}

// Moves tells whether something of the record goes into the pod's namespace:
// nothing does under admin access, or of an RDMA device that is shared.
func (d *Driver) Moves(r driver.Record) bool {
	plans, err := plansOf(r)
	return err != nil || slices.ContainsFunc(plans, Plan.moves)
}

// moves tells whether something of the device goes into the pod's namespace.
func (p Plan) moves() bool { return p.Pod != nil || p.RDMA != nil && p.RDMA.Exclusive }

// onHost is how to find the interface on the host.
func (p Plan) onHost() nslink.Identity {
	id := p.identity()
	if p.Host == nil {
		return id
	}
	return id.OnHost(p.Host.Name, p.Host.Index)
}

// identity is how to find the interface in the pod.
func (p Plan) identity() nslink.Identity {
	if p.Pod == nil {
		return nslink.IdentityOf(p.NIC, nil).Alone(p.Alone)
	}
	return nslink.IdentityOf(p.NIC, p.Pod.Settings.MAC).Alone(p.Alone).Named(p.Pod.Name)
}

// lease is nil where no address was given for a time.
func (p Plan) lease() *dhcp.Lease {
	if p.Stage == nil {
		return nil
	}
	return p.Stage.Lease
}
