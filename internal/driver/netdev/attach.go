// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Attach moves the record's NICs into the network namespace at a path, in the
// record's order. When one fails, those that this call moved go back. A NIC
// that is there and up is done, whatever the pod has renamed it to.
func (d *Driver) Attach(ctx context.Context, r driver.Record, netnsPath string) ([]driver.DeviceStatus, error) {
	statuses, err := d.attachAll(ctx, r, netnsPath)
	if err != nil {
		return nil, fmt.Errorf("attach claim %s: %w", r.Claim, err)
	}
	return statuses, nil
}

func (d *Driver) attachAll(ctx context.Context, r driver.Record, netnsPath string) ([]driver.DeviceStatus, error) {
	plans, err := readAll(r, readBrief)
	if err != nil {
		return nil, err
	}
	pod, err := d.openPod(netnsPath)
	if err != nil {
		return nil, err
	}
	defer d.closePod(pod)
	if pod.Is(d.host.NetNSConn) {
		return nil, errors.New("the pod uses the host's network: a NIC cannot move there; leave out hostNetwork or the claim")
	}
	t := &transaction{Driver: d, pod: pod}
	statuses, err := t.attach(ctx, r, plans)
	if err != nil {
		return nil, errors.Join(err, t.rollback(ctx, r))
	}
	return statuses, nil
}

// describe fills the status from the link and its addresses, and returns the
// addresses.
func describe(s *driver.DeviceStatus, link *rtnl.Link, addresses []rtnl.Prefix) []netip.Prefix {
	s.InterfaceName = link.Name
	if link.MAC != nil {
		s.HardwareAddress = *link.MAC
	}
	var have []netip.Prefix
	for _, a := range addresses {
		have = append(have, a.Prefix)
		if a.Global {
			s.IPs = append(s.IPs, a.String())
		}
	}
	return have
}

// plansOf are the plans of a record's devices, in its order. One that cannot be
// read is empty, beside the error.
func plansOf(r driver.Record) ([]Plan, error) { return readAll(r, ReadPlan) }

func readAll(r driver.Record, read func(driver.DeviceRecord) (Plan, error)) ([]Plan, error) {
	plans := make([]Plan, len(r.Devices))
	var errs []error
	for i, d := range r.Devices {
		var err error
		plans[i], err = read(d)
		errs = append(errs, err)
	}
	return plans, errors.Join(errs...)
}

// rollbackTime bounds putting devices back when the caller's own time is up.
const rollbackTime = 5 * time.Second

// transaction is one call of Attach: all of its NICs, or none.
type transaction struct {
	*Driver
	pod *podstate.Pod
	// inPod are the NICs that were in the pod before anything moved. onHost are the
	// host's links, nil until they are needed.
	inPod, onHost []rtnl.Link
	// moved are the NICs that may have left the host.
	moved []Plan
	// names are those of the claim's interfaces in the pod.
	names []string
}

func (t *transaction) attach(ctx context.Context, r driver.Record, plans []Plan) ([]driver.DeviceStatus, error) {
	var err error
	if t.inPod, err = nicsIn(t.pod, plans); err != nil {
		return nil, err
	}
	for _, plan := range plans {
		if plan.Pod != nil {
			t.names = append(t.names, plan.Pod.Name)
		}
	}
	if err := t.prepareNamespace(r, plans); err != nil {
		return nil, err
	}
	statuses := make([]driver.DeviceStatus, len(plans))
	links := make([]*rtnl.Link, len(plans))
	for i, plan := range plans {
		statuses[i].Device = r.Devices[i].Device
		if err = ctx.Err(); err == nil {
			links[i], err = t.attachOne(plan, r.Devices[i].AdminAccess)
		}
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", r.Devices[i].Device, err)
		}
	}
	for i, plan := range plans {
		if links[i] == nil {
			continue
		}
		if err := t.finish(plan, links[i], &statuses[i]); err != nil {
			return nil, fmt.Errorf("device %s: interface %s: %w", r.Devices[i].Device, links[i].Name, err)
		}
	}
	return statuses, nil
}

// prepareNamespace sets the sysctls of the pod's namespace that the configurations of
// NICs which are not in it yet ask for. It comes before the first NIC arrives, since
// writing one of conf.all also writes that of every interface that is there.
func (t *transaction) prepareNamespace(r driver.Record, plans []Plan) error {
	for i, plan := range plans {
		if plan.Pod == nil || len(plan.Pod.PodSysctls) == 0 {
			continue
		}
		arrives, err := t.arrives(plan)
		if err == nil && arrives {
			err = plan.Pod.PrepareNamespace(t.pod)
		}
		if err != nil {
			return fmt.Errorf("device %s: %w", r.Devices[i].Device, err)
		}
	}
	return nil
}

// arrives says whether an interface is yet to come into the pod.
func (t *transaction) arrives(plan Plan) (bool, error) {
	if plan.Child != nil {
		link, err := plan.identity().Find(t.inPod)
		return link == nil, err
	}
	_, onHost, err := t.find(plan)
	return onHost != nil, err
}

// finish adds what needs the interface up, and fills the status.
func (t *transaction) finish(plan Plan, link *rtnl.Link, status *driver.DeviceStatus) error {
	addresses, err := t.pod.PrefixesOf(link.Index)
	if err != nil {
		return err
	}
	have := describe(status, link, addresses)
	view := &rdmaView{Driver: t.Driver, conn: t.pod.NetNSConn}
	if status.Attributes, err = view.attributes(plan, link, addresses); err != nil {
		// The pod has the device; what is not known of it nobody is told.
		klog.Background().Info("not known what containers are told of an RDMA device", "device", status.Device, "reason", err.Error())
	}
	leftOut, err := plan.Pod.Finish(t.pod, link.Index, have, plan.lease())
	status.Note = noteOf(t.leaseExpired(plan), leftOut)
	return err
}

// maxLeftOut bounds how many entries a note names: a host that takes part in
// routing has thousands of routes.
const maxLeftOut = 3

// noteOf appends to a note the host's entries that the pod does not get.
func noteOf(note string, leftOut []string) string {
	if len(leftOut) == 0 {
		return note
	}
	if note != "" {
		note += "; "
	}
	note += "left out, as the kernel refuses it beside the pod's addresses: " + strings.Join(leftOut[:min(len(leftOut), maxLeftOut)], "; ")
	if more := len(leftOut) - maxLeftOut; more > 0 {
		note += fmt.Sprintf("; and %d more", more)
	}
	return note
}

// nicsIn lists the links in the pod that could be NICs of the plans.
func nicsIn(pod *podstate.Pod, plans []Plan) ([]rtnl.Link, error) {
	var ids []nslink.Identity
	for _, plan := range plans {
		if plan.Pod != nil {
			ids = append(ids, plan.identity())
		}
	}
	return nslink.LinksOf(pod.Conn, ids...)
}

// attachOne brings one device into the pod. The link is nil where the device
// has none.
func (t *transaction) attachOne(plan Plan, adminAccess bool) (*rtnl.Link, error) {
	if adminAccess {
		return nil, nil
	}
	var link *rtnl.Link
	var err error
	switch {
	case plan.Child != nil:
		link, err = t.attachChild(plan)
	case plan.Pod != nil:
		link, err = t.attachInterface(plan)
	}
	if err != nil {
		return nil, err
	}
	moved, err := t.toPod(plan, t.pod.Fd())
	if moved {
		t.moved = append(t.moved, plan)
	}
	if err != nil {
		return nil, fmt.Errorf("RDMA device %s: %w", plan.NIC.RDMA.Name, err)
	}
	return link, nil
}

// attachInterface moves the interface and configures it. A link that is up in the pod
// is configured: Configure sets it up last.
func (t *transaction) attachInterface(plan Plan) (*rtnl.Link, error) {
	link, onHost, err := t.find(plan)
	switch {
	case err != nil:
		return nil, err
	case onHost != nil:
		link, err = t.move(plan, onHost)
	case link == nil:
		return nil, fmt.Errorf("%s is neither on the host nor in the pod", plan.onHost())
	}
	if err != nil || link.Up {
		return link, err
	}
	if err := dropPrograms(t.pod, link.Index, plan); err != nil {
		return nil, err
	}
	if err := t.host.SetMAC(plan.Host.VF, plan.Pod.Settings.MAC); err != nil {
		return nil, fmt.Errorf("interface.hardwareAddr: %w", err)
	}
	lease := plan.lease()
	if t.leaseExpired(plan) != "" {
		lease = nil // the address may be somebody else's by now
	}
	configure := func() error { return plan.Pod.Configure(t.pod, link, lease) }
	if plan.Host.VF.SetsMAC() { // which may have reset it
		return link, hoststate.AwaitReset(configure)
	}
	return link, configure()
}

// dropPrograms detaches the eBPF programs that their owner attached to a NIC again
// after staging detached them. They are not kept: the owner attaches them again when
// the NIC is back on the host.
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

// leaseExpired is a note when the lease of a NIC's address has expired, else empty. The
// NIC is attached all the same: Renew asks for another address from inside the pod.
func (t *transaction) leaseExpired(plan Plan) string {
	lease := plan.lease()
	if lease == nil || podstate.LeaseValid(lease, t.now()) {
		return ""
	}
	return fmt.Sprintf("the lease of %s ran out at %s, and the interface has no address until the DHCP server gives it one",
		lease.Address, lease.Expiry.UTC().Format(time.RFC3339))
}

// find looks for the NIC where it was before anything moved: in the pod, and, unless
// the link there is certainly the NIC, on the host. A match on the host is preferred.
func (t *transaction) find(plan Plan) (inPod, onHost *rtnl.Link, err error) {
	inPod, err = plan.identity().Find(t.inPod)
	if err != nil || inPod != nil && plan.identity().Certain(inPod) {
		return inPod, nil, err
	}
	if t.onHost == nil {
		if t.onHost, err = t.host.Links(); err != nil {
			return nil, nil, err
		}
	}
	onHost, err = plan.onHost().Find(t.onHost)
	return inPod, onHost, err
}

// move takes the NIC from the host.
func (t *transaction) move(plan Plan, link *rtnl.Link) (*rtnl.Link, error) {
	// Prepare refused this, but a link may have been created on top since.
	if err := hoststate.RefuseUpper(t.onHost, link.Index, link.Name); err != nil {
		return nil, err
	}
	t.moved = append(t.moved, plan)
	// A physical function that was reset since staging may have forgotten.
	if err := t.stageVF(&plan); err != nil {
		return nil, err
	}
	free := t.host.FreeMAC(plan.Host.VF)
	// Alternative names move with the link, and one may be the name that an
	// interface of the claim gets in the pod. Detach restores it.
	for _, alternative := range link.AltNames {
		if !slices.Contains(t.names, alternative) {
			continue
		}
		if err := t.host.DeleteAltName(link.Index, alternative); err != nil {
			return nil, err
		}
	}
	name := plan.Pod.Name
	err := t.host.Move(link.Index, t.pod.Fd(), rtnl.Change{Name: &name, Settings: plan.Pod.Settings})
	if errors.Is(err, syscall.EEXIST) {
		return nil, nameTaken(name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("interface %s to %s in the pod: %w", link.Name, name, errors.Join(err, free))
	}
	arrived, err := t.pod.LinkByName(name)
	if err == nil && (arrived == nil || !plan.identity().Matches(*arrived)) {
		err = errors.New("it was moved, but is not in the pod")
	}
	return arrived, err
}

func nameTaken(name string, err error) error {
	return fmt.Errorf("interface.name: the pod has an interface %q, or one of that alternative name, already: choose another name: %w", name, err)
}

// rollback undoes the moves of this call. It reads the plans again, as those of t lack
// the host's settings (readBrief).
func (t *transaction) rollback(ctx context.Context, r driver.Record) error {
	if len(t.moved) == 0 {
		return nil
	}
	plans, unread := plansOf(r)
	plans = slices.DeleteFunc(plans, func(p Plan) bool {
		return !slices.ContainsFunc(t.moved, func(m Plan) bool { return reflect.DeepEqual(m.NIC, p.NIC) && reflect.DeepEqual(m.Child, p.Child) })
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	return errors.Join(unread, t.restore(ctx, plans, t.pod))
}
