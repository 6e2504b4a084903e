// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// planner decides about one claim. It is pure: what it knows of the kernel was
// read before.
type planner struct {
	claim  driver.Claim
	held   []driver.Record
	m      *model.Machine
	bootID string
	facts  facts
	pod    *podUse
	// away are the NICs that held hold, as they were on the host.
	away []*hoststate.State
	// addresses are in use: those of held, and those that were chosen for this claim.
	addresses map[netip.Addr]bool
	// children are the links on shared NICs: those of held, and those that were planned for
	// this claim.
	children *[]heldChild
}

// plan is the whole record, or every reason why there is none.
func (p planner) plan() (driver.Record, error) {
	r := driver.Record{
		Version: driver.RecordVersion,
		BootID:  p.bootID,
		Driver:  Name,
		Claim:   p.claim.ClaimRef,
		Pods:    p.claim.Pods,
	}
	var err error
	if p.pod, err = usedBy(p.claim, p.held); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	if p.away, err = heldStates(p.held); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	if p.addresses, err = heldAddresses(p.held); err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	children, err := heldChildren(p.held, p.claim)
	if err != nil {
		return driver.Record{}, fmt.Errorf("claim %s: %w", p.claim.ClaimRef, err)
	}
	p.children = &children
	configs := make([]*v1alpha1.NetworkConfig, len(p.claim.Devices))
	problems := make([]error, len(p.claim.Devices))
	for i, a := range p.claim.Devices {
		if a.AdminAccess {
			continue
		}
		if configs[i], problems[i] = configOf(a.Configs); problems[i] == nil {
			p.pod.reserve(configs[i], p.facts.nics[a.Device].seen)
		}
	}
	taken := map[string]bool{}
	var errs []error
	for i, a := range p.claim.Devices {
		d, err := p.device(a, configs[i], problems[i], taken)
		if err != nil {
			errs = append(errs, fmt.Errorf("claim %s, request %s, device %s: %w", p.claim.ClaimRef, a.Request, a.Device, err))
			continue
		}
		r.Devices = append(r.Devices, d)
		if a.ShareID != nil {
			r.Version = driver.RecordVersionShares
		}
	}
	if err := errors.Join(errs...); err != nil {
		return driver.Record{}, err
	}
	return r, nil
}

// device plans one allocation. problem is why its parameters cannot be read;
// taken are the devices planned before.
func (p planner) device(a driver.Allocation, c *v1alpha1.NetworkConfig, problem error, taken map[string]bool) (driver.DeviceRecord, error) {
	nic := slicecodec.FindNIC(p.m, a.Device)
	if nic == nil {
		return driver.DeviceRecord{}, errors.New("this node has no such NIC")
	}
	d := driver.DeviceRecord{Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess}
	if a.ShareID != nil {
		d.ShareID = string(*a.ShareID)
		nic = nic.InShares()
	}
	plan := Plan{NIC: *nic, Alone: alone(p.m, nic)}
	if !a.AdminAccess {
		if err := p.mayTake(a, nic, taken); err != nil {
			return driver.DeviceRecord{}, err
		}
		taken[key(a, nic)] = true
		if problem != nil {
			return driver.DeviceRecord{}, problem
		}
		if a.ShareID != nil {
			c = withOffer(c, nic.Share)
		}
		if err := p.placement(a, c, &plan); err != nil {
			return driver.DeviceRecord{}, err
		}
		var err error
		if plan.ManagementFiles, err = managementFiles(nic.RDMA, c); err != nil {
			return driver.DeviceRecord{}, err
		}
		d.Edits, d.RDMA = fileEdits(plan), nic.RDMA != nil && (plan.Child != nil || !nic.RDMA.Software)
	}
	if plan.Pod != nil {
		if err := p.pod.add(plan.Pod, "for device "+a.Device); err != nil {
			return driver.DeviceRecord{}, err
		}
	}
	if plan.Child != nil {
		*p.children = append(*p.children, childHeld(&plan, "request "+a.Request+" of this claim", false))
	}
	var err error
	d.Plan, err = json.Marshal(plan)
	return d, err
}

// alone tells whether no other interface, held ones included, is known on a NIC's
// PCI function.
func alone(m *model.Machine, nic *model.NIC) bool {
	return nic.PCI != nil && nic.Port == nil && !slices.ContainsFunc(m.NICs, func(o model.NIC) bool {
		return o.PCI != nil && *o.PCI == *nic.PCI && o.Port != nil
	})
}

// key tells allocations apart: of one NIC there is one, or one for each share.
func key(a driver.Allocation, nic *model.NIC) string {
	if a.ShareID == nil {
		return slicecodec.NICName(*nic)
	}
	return slicecodec.NICName(*nic) + "/" + string(*a.ShareID)
}

// isOf says whether a device of a record is a NIC, or its twin.
func isOf(d driver.DeviceRecord, nic *model.NIC) bool {
	return d.Device == slicecodec.NICName(*nic) || d.Device == slicecodec.TwinName(*nic)
}

// mayTake refuses what must not be taken from the host or from another claim.
func (p planner) mayTake(a driver.Allocation, nic *model.NIC, taken map[string]bool) error {
	name := slicecodec.NICName(*nic)
	whole := a.ShareID == nil
	isTwin := a.Device != name
	switch {
	case taken[key(a, nic)]:
		return errors.New("the claim lists it twice")
	case taken[name] || whole && anyStartsWith(taken, name+"/"):
		return errors.New("the claim has the NIC whole and a share of it: want one of them")
	case !whole:
		return p.mayShare(a, nic)
	case nic.Withheld != nil:
		return fmt.Errorf("%s is not offered: it %s", nic, *nic.Withheld)
	case isTwin && (nic.Share == nil || !nic.Share.AlsoExclusive):
		return fmt.Errorf("%s is not offered both whole and in shares any more: delete the claim, so that it is allocated anew", nic)
	case !isTwin && nic.Share != nil:
		return fmt.Errorf("%s is shared, and the claim was allocated all of it: delete the claim, so that it is allocated anew", nic)
	}
	return p.isFree(nic)
}

// isFree refuses a NIC that another claim has, whole or a share of it.
func (p planner) isFree(nic *model.NIC) error {
	for _, r := range p.held {
		for _, d := range r.Devices {
			if isOf(d, nic) && !d.AdminAccess && r.Claim.UID != p.claim.UID {
				return driver.HeldError{Err: fmt.Errorf("claim %s holds it", r.Claim)}
			}
		}
	}
	return nil
}

func anyStartsWith(keys map[string]bool, prefix string) bool {
	for key := range keys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// placement plans the interface, where the NIC has one, and the RDMA device.
func (p planner) placement(a driver.Allocation, c *v1alpha1.NetworkConfig, plan *Plan) error {
	if c.RDMA != nil && plan.NIC.RDMA == nil {
		return errors.New("rdma: the NIC has no RDMA device: leave it out")
	}
	if c.NCCL() {
		plan.NCCL = &NCCL{GPUs: p.claim.GPUs}
	}
	var err error
	if plan.NIC.Interface != nil {
		if c, plan.Block, err = p.fromPool(a, c); err != nil {
			return err
		}
	}
	if a.ShareID != nil {
		return p.placeChild(a, c, plan)
	}
	plan.RDMA = p.facts.rdmaPlan(plan.NIC.RDMA)
	if err = errors.Join(refuseIPoIB(plan), p.refuseHalf(plan)); err != nil {
		return err
	}
	if plan.NIC.Interface == nil {
		return errors.Join(refuseLoss(plan), c.ValidateRDMAOnly())
	}
	if err := refuseChild(c); err != nil {
		return err
	}
	if err := p.checkMTU(plan.NIC, c); err != nil {
		return err
	}
	known := p.facts.nics[a.Device]
	if known.err != nil {
		return known.err
	}
	seen := *known.seen
	if err := p.keepPrograms(a.Device, c, &seen.State); err != nil {
		return err
	}
	for _, other := range p.away {
		// Routes that lead through this NIC, too.
		if err := seen.State.Inherit(other); err != nil {
			return err
		}
	}
	// Both are reported, so that a user can correct both fields at once.
	var stageErr, podErr error
	plan.Stage, stageErr = stageOf(c, &seen)
	plan.Host = &seen.State
	plan.Pod, podErr = p.pod.stateOf(c, &seen)
	return errors.Join(stageErr, podErr, p.placeVF(a.Device, c, plan))
}

// refuseChild refuses to put a link of the pod's own on a NIC that it has whole.
func refuseChild(c *v1alpha1.NetworkConfig) error {
	if t := c.Interface.Type; t != nil && *t != v1alpha1.TypePassthrough {
		return fmt.Errorf("interface.type: %q: is of NICs that are shared, and the claim was allocated a whole one: want class %s, or leave it out", *t, slicecodec.ClassShared)
	}
	return nil
}

// placeVF adds what the physical function sets of a virtual one.
func (p planner) placeVF(device string, c *v1alpha1.NetworkConfig, plan *Plan) error {
	var mac *string
	if plan.Pod != nil {
		mac = plan.Pod.Settings.MAC
	}
	was, want, err := vfPlan(c, p.facts.nics[device].vf, mac)
	plan.Host.VF = was
	if want == nil {
		return err
	}
	if plan.Stage == nil {
		plan.Stage = &Stage{}
	}
	plan.Stage.VF = want
	return err
}

// refuseIPoIB refuses to move an RDMA device with its IPoIB interface: the kernel ends the
// interface as the device leaves the host, and makes another one in the pod, which
// would have nothing of what the claim asks for (drivers/infiniband/ulp/ipoib/ipoib_main.c,
// ipoib_remove_one).
func refuseIPoIB(plan *Plan) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive || !plan.NIC.IPoIB() {
		return nil
	}
	return endOf(&plan.NIC)
}

// endOf is what becomes of the IPoIB interface of an RDMA device that leaves the host.
func endOf(nic *model.NIC) error {
	return fmt.Errorf("RDMA device %s: its IPoIB interface %s would end with the move of the device: want a node in mode shared (rdma system set netns shared)",
		nic.RDMA.Name, nic.Interface.Name)
}

// refuseLoss refuses to move an RDMA device from under an interface that is to stay:
// the kernel takes all its users off a device that changes its network namespace,
// IPoIB among them (drivers/infiniband/core/device.c, rdma_dev_change_netns).
func refuseLoss(plan *Plan) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive || plan.NIC.RDMA.HostInterface == nil {
		return nil
	}
	return lossOf(plan.NIC.RDMA)
}

// lossOf is what the host would lose with an RDMA device that has an interface on it.
func lossOf(d *model.RDMADevice) error {
	return fmt.Errorf("RDMA device %s: the host would lose interface %s, which --move-ib-interfaces=false leaves there: want a node in mode shared (rdma system set netns shared)",
		d.Name, *d.HostInterface)
}

// keepPrograms sets the key under which eBPF programs are held: those that the move
// loses, that the configuration detaches, and that a pod may detach.
func (p planner) keepPrograms(device string, c *v1alpha1.NetworkConfig, s *hoststate.State) error {
	if len(s.Programs) == 0 {
		return nil
	}
	if p.facts.keepsPrograms {
		s.Key = device
		return nil
	}
	return hoststate.RefuseUnkept(s, c.Interface.DisableEBPFPrograms != nil && *c.Interface.DisableEBPFPrograms)
}

// checkMTU holds a virtual function to the MTU of its physical one, beyond
// which the hardware drops what the kernel lets pass.
func (p planner) checkMTU(nic model.NIC, c *v1alpha1.NetworkConfig) error {
	if c.Interface.MTU == nil || nic.PCI == nil {
		return nil
	}
	f := p.m.Function(*nic.PCI)
	if f == nil || f.PhysicalFunction == nil {
		return nil
	}
	for _, other := range p.m.NICs {
		if other.PCI == nil || *other.PCI != *f.PhysicalFunction || other.Interface == nil || other.Interface.MTU == nil {
			continue
		}
		if int(*c.Interface.MTU) > *other.Interface.MTU {
			return fmt.Errorf("interface.mtu: %d: want at most %d, the MTU of its physical function %s",
				*c.Interface.MTU, *other.Interface.MTU, other)
		}
	}
	return nil
}

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
		return nslink.ChildIdentity(p.Child.Alias, p.Child.FirstName)
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
