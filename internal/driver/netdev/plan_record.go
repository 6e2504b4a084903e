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
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
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
	// ManagementFiles are the kinds of device files beside the verbs that containers get
	// of the RDMA device, such as umad.
	ManagementFiles []string `json:"managementFiles,omitempty"`
	// NCCL is what containers are told for NCCL; nil for nothing.
	NCCL *NCCL `json:"nccl,omitempty"`
	// Container is what containers get of the host; nil for nothing.
	Container *Container `json:"container,omitempty"`
	// Child is the link that the pod gets on a NIC that is shared: Pod is about it. Nil
	// where the NIC itself goes there.
	Child *Child `json:"child,omitempty"`
	// Block is the block of addresses that those of Pod are from; empty where they are from
	// none.
	Block string `json:"block,omitempty"`
}

// NCCL asks for the environment of NCCL.
type NCCL struct {
	// GPUs are those of the claim, as far as they are known.
	GPUs []model.PCIAddress `json:"gpus,omitempty"`
}

// Container is what containers get of the host beside the device.
type Container struct {
	// Mounts are folders and files of the host.
	Mounts []driver.Mount `json:"mounts,omitempty"`
	// Env are variables by name.
	Env map[string]string `json:"env,omitempty"`
}

// Stage is what is set of a device before it leaves the host, and what that gave.
type Stage struct {
	// Features and PrivateFlags are those to set, by the device's own names.
	Features     map[string]bool `json:"features,omitempty"`
	PrivateFlags map[string]bool `json:"privateFlags,omitempty"`
	// Programs takes the eBPF programs off.
	Programs bool `json:"programs,omitempty"`
	// VF is what to set of a virtual function through its physical one.
	VF *rtnl.VFSettings `json:"vf,omitempty"`
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

// skipped is JSON that is not decoded.
type skipped struct{}

// UnmarshalJSON takes anything.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// heldDevice is a device of a record that another claim has, with its plan.
type heldDevice struct {
	driver.DeviceRecord
	claim driver.ClaimRef
	pods  []driver.PodRef
	// plan is without the host's settings (readBrief).
	plan Plan
}

// readHeld reads the plans of records, each once.
func readHeld(held []driver.Record) ([]heldDevice, error) {
	var all []heldDevice
	for _, r := range held {
		for _, d := range r.Devices {
			plan, err := readBrief(d)
			if err != nil {
				return nil, fmt.Errorf("held claim %s: %w", r.Claim, err)
			}
			all = append(all, heldDevice{DeviceRecord: d, claim: r.Claim, pods: r.Pods, plan: plan})
		}
	}
	return all, nil
}

// HeldNICs are the NICs that a record holds whole, as they were when they were taken.
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
		if p.Child == nil {
			p.NIC.Share = nil // that is said anew (HeldShares)
			held = append(held, p.NIC)
		}
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
		if p.Pod != nil && p.Child == nil {
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
	if p.Child != nil {
		return nslink.ChildIdentity(p.Child.Kind, p.Child.Alias, p.Child.FirstName, p.Pod.Name)
	}
	if p.Pod == nil {
		return nslink.IdentityOf(p.NIC, nil).Alone(p.Alone)
	}
	return nslink.IdentityOf(p.NIC, p.Pod.Settings.MAC).Alone(p.Alone).Named(p.Pod.Name)
}

// lease is nil where the address is not from a DHCP server.
func (p Plan) lease() *dhcp.Lease {
	if p.Stage == nil {
		return nil
	}
	return p.Stage.Lease
}

// HeldShares are what a record has of NICs that are shared, and those that it has whole by
// their twins.
func HeldShares(r driver.Record) ([]model.HeldShare, error) {
	var held []model.HeldShare
	for _, d := range r.Devices {
		p, err := readBrief(d)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", r.Claim, err)
		}
		switch {
		case p.Child != nil:
			held = append(held, model.HeldShare{NIC: p.NIC, Slots: p.Child.Slots})
		case !d.AdminAccess && d.Device == slicecodec.TwinName(p.NIC):
			held = append(held, model.HeldShare{NIC: p.NIC})
		}
	}
	return held, nil
}
