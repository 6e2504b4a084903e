// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// sriovHost is a virtual machine with a physical function of a real driver, igb, and
// virtual ones that a test made.
type sriovHost struct {
	pf hosttest.PhysicalFunction
	// index is the ifindex of the physical function.
	index  int
	driver *Driver
	// machine is what an inventory says, vfs are the NICs of its virtual functions in the
	// order of their numbers, before are these as the host has them and was what the
	// physical function tells of them.
	machine *model.Machine
	vfs     []model.NIC
	before  []string
	was     []rtnl.VF
}

// sriovAddress is the host's on each virtual function.
const sriovAddress = "10.98.%d.1/24"

func newSRIOVHost(t *testing.T, functions int) *sriovHost {
	t.Helper()
	h := &sriovHost{pf: hosttest.NeedSRIOV(t)}
	h.pf.SetVFs(t, functions)
	h.restart(t)
	h.scan(t)
	for i, nic := range h.vfs {
		hosttest.Host(t, fmt.Sprintf("ip address add "+sriovAddress+" dev %s\nip link set %[2]s up", i, nic.Interface.Name))
	}
	h.settle(t)
	h.scan(t)
	for _, nic := range h.vfs {
		h.before = append(h.before, h.state(t, nic))
	}
	h.was = h.tell(t)
	t.Logf("the physical function tells %s", spellVFs(h.was))
	return h
}

// restart is a new agent's driver.
func (h *sriovHost) restart(t *testing.T) {
	t.Helper()
	d, err := New(Options{Host: netns.Self, BootID: "boot", Sys: os.DirFS("/sys")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h.driver = d
}

// scan reads the machine as the agent does.
func (h *sriovHost) scan(t *testing.T) {
	t.Helper()
	host, err := netns.Open(netns.Self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Close() }()
	links, err := inventory.OpenNetlink(host.Fd(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	if h.machine, _, err = inventory.Scan(t.Context(), inventory.Sources{Sys: os.DirFS("/sys"), Links: links}, inventory.Options{}); err != nil {
		t.Fatal(err)
	}
	h.vfs = nil
	for _, n := range h.machine.NICs {
		if n.PCI == nil {
			continue
		}
		switch f := h.machine.Function(*n.PCI); {
		case n.PCI.String() == h.pf.Address:
			h.index = n.Interface.Index
		case f.PhysicalFunction != nil:
			h.vfs = append(h.vfs, n)
		}
	}
	slices.SortFunc(h.vfs, func(a, b model.NIC) int { return a.PCI.Compare(*b.PCI) })
}

// settle waits until each virtual function has a carrier and IPv6's own addresses.
func (h *sriovHost) settle(t *testing.T) {
	t.Helper()
	eventually(t, "wait for the virtual functions' links", func() error {
		links, err := h.driver.host.Links()
		if err != nil {
			return err
		}
		for _, nic := range h.vfs {
			i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Name == nic.Interface.Name })
			if i < 0 || links[i].State != "up" {
				return fmt.Errorf("%s is not up", nic.Interface.Name)
			}
		}
		return nil
	})
}

// permanentMAC is a line of a state.
var permanentMAC = regexp.MustCompile(`(?m)^ *"permanentMAC": .*\n`)

// state is what the host has of a virtual function, without the permanent MAC: igbvf takes
// the one in use for it, each time that it is set down (igbvf_reset).
func (h *sriovHost) state(t *testing.T, nic model.NIC) string {
	t.Helper()
	return permanentMAC.ReplaceAllString(physicalState(t, h.driver, nic), "")
}

// tell is what the physical function tells.
func (h *sriovHost) tell(t *testing.T) []rtnl.VF {
	t.Helper()
	all, err := h.driver.host.Conn.VFs(h.index)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func spellVFs(all []rtnl.VF) string {
	var text []string
	for _, vf := range all {
		text = append(text, fmt.Sprintf("%d: %s", vf.Number, vf.VFSettings))
	}
	return strings.Join(text, "; ")
}

// expect compares what the physical function tells. Tells of a MAC follow a function's own
// in its own time.
func (h *sriovHost) expect(t *testing.T, what string, want []rtnl.VF) {
	t.Helper()
	var diff string
	for range 40 {
		if diff = cmp.Diff(want, h.tell(t)); diff == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s: virtual functions (-want +got):\n%s", what, diff)
}

// claimed is what the physical function tells when a function has those settings.
func (h *sriovHost) claimed(number int, s rtnl.VFSettings) []rtnl.VF {
	all := slices.Clone(h.was)
	all[number].VFSettings = s
	return all
}

// plan asks for a virtual function.
func (h *sriovHost) plan(t *testing.T, number int, parameters string) driver.Record {
	t.Helper()
	c := claim(parameters, "pci-"+dashes(h.vfs[number].PCI.String()))
	c.UID, c.Name = types.UID(fmt.Sprint("vf", number)), fmt.Sprint("vf", number)
	c.Pods[0].UID = c.UID
	r, err := h.driver.Plan(c, h.machine, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lend stages a record and attaches it.
func (h *sriovHost) lend(t *testing.T, r driver.Record, pod *hosttest.Namespace) driver.Record {
	t.Helper()
	began := time.Now()
	staged, err := h.driver.Stage(t.Context(), r)
	if err == nil {
		_, err = h.driver.Attach(t.Context(), staged, pod.Path())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("staged and attached within %s", time.Since(began))
	return staged
}

// undo is what becomes of a claim whose pod has gone.
func (h *sriovHost) undo(t *testing.T, r driver.Record, pod string) error {
	t.Helper()
	began := time.Now()
	err := errors.Join(h.driver.Detach(t.Context(), r, pod), h.driver.Unstage(t.Context(), r))
	t.Logf("detached and unstaged within %s: %v", time.Since(began), err)
	return err
}

// back gives a claim's function back, twice, and compares with what was.
func (h *sriovHost) back(t *testing.T, what string, r driver.Record, pod string) {
	t.Helper()
	for range 2 {
		if err := h.undo(t, r, pod); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		h.expectHost(t, what)
	}
}

// expectHost compares the host's virtual functions with what they were.
func (h *sriovHost) expectHost(t *testing.T, what string) {
	t.Helper()
	h.expect(t, what, h.was)
	for i, nic := range h.vfs {
		if diff := cmp.Diff(h.before[i], h.state(t, nic)); diff != "" {
			t.Errorf("%s: virtual function %d on the host (-before +after):\n%s", what, i, diff)
		}
	}
}

// sriovParameters set all that igb has, for the pod of that number.
func sriovParameters(number int, more string) string {
	return fmt.Sprintf(`{"interface": {"name": "net1", "addresses": ["10.99.1.%d/24"], "hardwareAddr": "02:00:00:00:bb:0%[1]d",
		"vf": {"vlan": 100, "vlanQoS": 3, "maxTxRate": 500%s}}}`, number, more)
}

// sriovSettings are what those parameters make of a function.
func sriovSettings(number int, spoof, trust bool) rtnl.VFSettings {
	return rtnl.VFSettings{MAC: ptr(fmt.Sprintf("02:00:00:00:bb:0%d", number)), VLAN: &rtnl.VFVLAN{ID: 100, QoS: 3, Protocol: 0x8100},
		Rate: &rtnl.VFRate{Max: 500}, SpoofCheck: &spoof, Trust: &trust}
}

// TestSRIOVInPods gives virtual functions to two pods, which then reach each other by RDMA
// over Converged Ethernet in the VLAN that the physical function keeps them in, and gives
// them back. The lab makes the RDMA devices, which real hardware brings along.
func TestSRIOVInPods(t *testing.T) {
	h := newSRIOVHost(t, 3)
	var pods []rdmaPod
	want := slices.Clone(h.was)
	for i, more := range []string{`, "spoofCheck": false, "trust": true`, ""} {
		pod := rdmaPod{
			ns: hosttest.NewNamespace(t), device: fmt.Sprintf("rxevf%d", i),
			address: fmt.Sprintf("10.99.1.%d", i), gid: fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a63:01%02x", i),
		}
		pod.record = h.lend(t, h.plan(t, i, sriovParameters(i, more)), pod.ns)
		want[i].VFSettings = sriovSettings(i, more == "", more != "")
		h.expect(t, fmt.Sprintf("pod %d has one", i), want)
		out := pod.ns.Run(t, "ip -d link show net1")
		if !strings.Contains(out, *want[i].MAC) {
			t.Errorf("in the pod:\n%s", out)
		}
		pods = append(pods, pod)
	}
	// Who is not trusted cannot choose another MAC.
	pods[1].ns.Do(t, func() error {
		conn, err := rtnl.Dial(netns.Current)
		if err != nil {
			return err
		}
		defer conn.Close()
		link, err := conn.LinkByName("net1")
		if err != nil || link == nil {
			return fmt.Errorf("find net1: %v, %w", link, err)
		}
		if err := conn.Set(link.Index, rtnl.Change{Settings: rtnl.Settings{MAC: ptr("02:00:00:00:77:77")}}); err == nil {
			t.Error("the pod chose another MAC")
		} else {
			t.Logf("another MAC: %v", err)
		}
		return nil
	})
	h.expect(t, "another MAC was refused", want)
	for _, pod := range pods {
		eventually(t, "make an RDMA device", func() error { return rdma.AddSoftware(pod.ns.Fd(), pod.device, "rxe", "net1") })
	}
	for _, pod := range pods {
		awaitGID(t, pod)
	}
	t.Logf("emulated, of which no speed follows:\n%s", between(t, pods, "ib_write_lat -F -n 100"))
	for _, pod := range pods {
		if err := h.undo(t, pod.record, pod.ns.Path()); err != nil {
			t.Error(err)
		}
	}
	h.expectHost(t, "both are back")
}

// A namespace that ends gives its virtual function back by itself, with the pod's MAC.
func TestSRIOVPodEnds(t *testing.T) {
	h := newSRIOVHost(t, 2)
	pod := hosttest.NewNamespace(t)
	path := pod.Path()
	r := h.lend(t, h.plan(t, 1, sriovParameters(1, "")), pod)
	pod.Close()
	h.back(t, "the namespace ended", r, path)
}

// What igb refuses fails the claim at its field, and what was set before that is put back.
func TestSRIOVRefused(t *testing.T) {
	h := newSRIOVHost(t, 2)
	r := h.plan(t, 0, `{"interface": {"name": "net1", "vf": {"vlan": 100, "minTxRate": 10, "maxTxRate": 500}}}`)
	_, err := h.driver.Stage(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "interface.vf: vlan 100 qos 0 proto 0x8100 min_tx_rate 10 max_tx_rate 500: ") {
		t.Errorf("a rate that igb cannot promise: %v", err)
	}
	t.Logf("refused: %v", err)
	h.expectHost(t, "after a refusal")
}
