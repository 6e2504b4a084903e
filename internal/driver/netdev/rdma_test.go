// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// fakeRDMA is the RDMA subsystem of a kernel, kept in a file, so that a process that
// is killed leaves it as it was.
type fakeRDMA struct{ path string }

// rdmaState is what the subsystem has.
type rdmaState struct {
	Mode rdma.Mode
	// Refuse is what moves fail with.
	Refuse  string
	Devices []rdmaStateDevice
}

type rdmaStateDevice struct {
	Name, Kind string
	// Namespace is the inode of the network namespace that it is in.
	Namespace uint64
	// On is the index of its interface there.
	On int
}

func newFakeRDMA(t testing.TB, s rdmaState) fakeRDMA {
	t.Helper()
	f := fakeRDMA{path: filepath.Join(t.TempDir(), "rdma.json")}
	if err := f.write(s); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fakeRDMA) read() (s rdmaState, err error) {
	text, err := os.ReadFile(f.path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (f fakeRDMA) write(s rdmaState) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(f.path, text, 0o600)
	}
	return err
}

func inode(fd int) uint64 {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return 0
	}
	return s.Ino
}

func (f fakeRDMA) Mode(int) (rdma.Mode, error) {
	s, err := f.read()
	if err == nil && s.Mode == "" {
		err = rdma.ErrNone
	}
	return s.Mode, err
}

func (f fakeRDMA) Devices(namespace int) ([]rdma.Device, error) {
	return f.list(func(s rdmaState, d rdmaStateDevice) bool {
		return s.Mode == rdma.Shared || d.Namespace == inode(namespace)
	})
}

func (f fakeRDMA) On(namespace, ifindex int) ([]rdma.Device, error) {
	return f.list(func(_ rdmaState, d rdmaStateDevice) bool {
		return d.Namespace == inode(namespace) && d.On == ifindex
	})
}

func (f fakeRDMA) list(want func(rdmaState, rdmaStateDevice) bool) ([]rdma.Device, error) {
	s, err := f.read()
	var list []rdma.Device
	for i, d := range s.Devices {
		if want(s, d) {
			list = append(list, rdma.Device{Name: d.Name, Index: uint32(i), Kind: d.Kind})
		}
	}
	return list, err
}

// Move does what the kernel does: only in exclusive mode, and only from where it is.
func (f fakeRDMA) Move(from int, name string, to int) error {
	s, err := f.read()
	if err != nil {
		return err
	}
	if s.Mode != rdma.Exclusive {
		return unix.EOPNOTSUPP
	}
	if s.Refuse != "" {
		return errors.New(s.Refuse)
	}
	for i, d := range s.Devices {
		if d.Name == name && d.Namespace == inode(from) {
			s.Devices[i].Namespace = inode(to)
			return f.write(s)
		}
	}
	return unix.ENODEV
}

func (f fakeRDMA) AddSoftware(namespace int, name, kind, ifname string) error {
	s, err := f.read()
	if err != nil || slices.ContainsFunc(s.Devices, func(d rdmaStateDevice) bool { return d.Name == name }) {
		return err
	}
	conn, err := rtnl.Dial(namespace)
	if err != nil {
		return err
	}
	defer conn.Close()
	link, err := conn.LinkByName(ifname)
	if err == nil && link == nil {
		err = unix.ENODEV
	}
	if err != nil {
		return err
	}
	s.Devices = append(s.Devices, rdmaStateDevice{Name: name, Kind: kind, Namespace: inode(namespace), On: link.Index})
	return f.write(s)
}

func (f fakeRDMA) isSoftware(t testing.TB, name string) bool {
	t.Helper()
	s, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(s.Devices, func(d rdmaStateDevice) bool { return d.Name == name && d.Kind != "" })
}

// endSoftware does what the kernel does to software devices of a namespace whose interface
// has left it.
func (f fakeRDMA) endSoftware(t testing.TB, namespace int) {
	t.Helper()
	s, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	isSoftware := func(d rdmaStateDevice) bool { return d.Kind != "" && d.Namespace == inode(namespace) }
	if !slices.ContainsFunc(s.Devices, isSoftware) {
		return
	}
	conn, err := rtnl.Dial(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	s.Devices = slices.DeleteFunc(s.Devices, func(d rdmaStateDevice) bool {
		return isSoftware(d) && !slices.ContainsFunc(links, func(l rtnl.Link) bool { return l.Index == d.On })
	})
	if err := f.write(s); err != nil {
		t.Fatal(err)
	}
}

// where names the namespace of each device, of those given.
func (f fakeRDMA) where(t *testing.T, names map[string]*hosttest.Namespace) string {
	t.Helper()
	s, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, d := range s.Devices {
		place := "lost"
		for name, ns := range names {
			if inode(ns.Fd()) == d.Namespace {
				place = name
			}
		}
		list = append(list, d.Name+" "+place)
	}
	return strings.Join(list, ", ")
}

// rdmaFiles is /sys of a host with two HCAs and a software device, whose files are
// numbered otherwise than when the inventory was taken.
const rdmaFiles = `
	class/infiniband_verbs/uverbs4 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs4
	devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs4/ibdev = mlx5_0
	devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs4/dev = 231:196
	class/infiniband_mad/umad4 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_mad/umad4
	devices/pci0000:8c/0000:91:00.0/infiniband_mad/umad4/ibdev = mlx5_0
	devices/pci0000:8c/0000:91:00.0/infiniband_mad/umad4/dev = 231:4
	class/infiniband_verbs/uverbs1 -> ../../devices/pci0000:8c/0000:92:00.0/infiniband_verbs/uverbs1
	devices/pci0000:8c/0000:92:00.0/infiniband_verbs/uverbs1/ibdev = mlx5_1
	devices/pci0000:8c/0000:92:00.0/infiniband_verbs/uverbs1/dev = 231:193
	class/infiniband_verbs/uverbs9 -> ../../devices/virtual/infiniband_verbs/uverbs9
	devices/virtual/infiniband_verbs/uverbs9/ibdev = rxe0
	devices/virtual/infiniband_verbs/uverbs9/dev = 231:201
	class/misc/rdma_cm/dev = 10:122
	bus/pci/devices/0000:91:00.0 -> ../../../devices/pci0000:8c/0000:91:00.0
	devices/pci0000:8c/0000:91:00.0/vendor = 0x15b3`

// rdmaRecord is a claim of one RDMA device without interface.
func rdmaRecord(t *testing.T, plan Plan) driver.Record {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Record{
		Version: 1, BootID: "boot", Driver: Name, Claim: driver.ClaimRef{UID: "uid", Namespace: "default", Name: "claim"},
		Devices: []driver.DeviceRecord{{Request: "nic", Device: "pci-0000-91-00-0", RDMA: true, Plan: text}},
	}
}

func hca(t *testing.T, name, function string) model.NIC {
	t.Helper()
	pci, err := model.ParsePCIAddress(function)
	if err != nil {
		t.Fatal(err)
	}
	return model.NIC{PCI: &pci, RDMA: &model.RDMADevice{Name: name, CharDevices: []string{"/dev/infiniband/uverbs0"}}}
}

// filesLine is what a container gets, or why it gets nothing.
func filesLine(e driver.ContainerEdits, err error) string {
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, d := range e.CharDevices {
		words = append(words, fmt.Sprintf("%s %d:%d %o", filepath.Base(d.Path), d.Major, d.Minor, d.Mode))
	}
	return strings.Join(words, ", ")
}

// The files are those of the claimed device, by the numbers that they have now.
func TestContainerEdits(t *testing.T) {
	l := newLab(t)
	l.driver.sys = hosttest.Tree(t, rdmaFiles)
	pod := hosttest.NewNamespace(t)
	onHost, inPod := inode(l.host.Fd()), inode(pod.Fd())
	moved := Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0"), RDMA: &RDMA{Name: "mlx5_0", Exclusive: true}}
	shared := Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0")}
	asked, renamed, bare, silent := moved, moved, moved, moved
	asked.ManagementFiles = []string{"umad"}
	renamed.NIC.RDMA = hca(t, "mlx5_1", "0000:91:00.0").RDMA
	bare.NIC = hca(t, "mlx5_7", "0000:93:00.0")
	bare.NIC.RDMA.CharDevices = nil
	silent.NIC = hca(t, "mlx5_7", "0000:93:00.0")
	issm := moved
	issm.ManagementFiles = []string{"issm"}
	const both = "uverbs4 231:196 666, rdma_cm 10:122 666"
	for _, test := range []struct {
		name string
		mode rdma.Mode
		in   uint64
		plan Plan
		want string
	}{
		{"shared: CDI has given the files", rdma.Shared, onHost, shared, ""},
		{"shared meanwhile", rdma.Shared, onHost, moved, both},
		{"moved into the pod", rdma.Exclusive, inPod, moved, both},
		{"not in the pod", rdma.Exclusive, onHost, moved, "claim default/claim, device pci-0000-91-00-0: RDMA device mlx5_0 is not in the pod's network namespace"},
		{"management files that were asked for", rdma.Shared, onHost, asked, "uverbs4 231:196 666, umad4 231:4 600, rdma_cm 10:122 666"},
		{"management files that have gone", rdma.Shared, onHost, issm, "claim default/claim, device pci-0000-91-00-0: RDMA device mlx5_0: rdma.issm: device mlx5_0 has no issm file: leave it out"},
		{"named anew, and another function has the name", rdma.Shared, onHost, renamed, both},
		{"another function has the name in the pod", rdma.Exclusive, onHost, renamed,
			"claim default/claim, device pci-0000-91-00-0: RDMA device mlx5_1 is not in the pod's network namespace"},
		{"a device that never had verbs", rdma.Shared, onHost, bare, ""},
		{"a device that has them no more", rdma.Shared, onHost, silent,
			"claim default/claim, device pci-0000-91-00-0: RDMA device mlx5_7: it has no file of verbs any more: want the kernel module ib_uverbs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l.driver.rdma = newFakeRDMA(t, rdmaState{Mode: test.mode, Devices: []rdmaStateDevice{
				{Name: "mlx5_0", Namespace: test.in}, {Name: "mlx5_1", Namespace: onHost}, {Name: "mlx5_7", Namespace: onHost},
			}})
			e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{rdmaRecord(t, test.plan)}, pod.Path())
			if got := filesLine(e, err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	looks := rdmaRecord(t, moved)
	looks.Devices[0].AdminAccess = true
	if e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{looks}, pod.Path()); filesLine(e, err) != "" {
		t.Errorf("admin access gets %q", filesLine(e, err))
	}
	// A pod in the host's network, of a shared device.
	l.driver.rdma = newFakeRDMA(t, rdmaState{Mode: rdma.Shared, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: onHost}}})
	e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{rdmaRecord(t, moved)}, "")
	if got := filesLine(e, err); got != both {
		t.Errorf("in the host's network: %q, want %q", got, both)
	}
}

// CDI gives the files of what stays as it is, and of nothing else.
func TestFileEdits(t *testing.T) {
	nic := hca(t, "mlx5_0", "0000:91:00.0")
	nic.RDMA.CharDevices = []string{"/dev/infiniband/issm0", "/dev/infiniband/rdma_cm", "/dev/infiniband/umad0", "/dev/infiniband/uverbs0"}
	software := hca(t, "rxe0", "0000:91:00.0")
	software.RDMA.Software = true
	for name, test := range map[string]struct {
		plan Plan
		want string
	}{
		"shared":                {Plan{NIC: nic}, "rdma_cm uverbs0"},
		"with management":       {Plan{NIC: nic, ManagementFiles: []string{"umad"}}, "rdma_cm umad0 uverbs0"},
		"moves":                 {Plan{NIC: nic, RDMA: &RDMA{Name: "mlx5_0", Exclusive: true}}, ""},
		"ends with the move":    {Plan{NIC: software, RDMA: &RDMA{Name: "rxe0", Software: "rxe"}}, ""},
		"software, kind unsaid": {Plan{NIC: software}, ""},
		"no RDMA device":        {Plan{}, ""},
	} {
		var got []string
		for _, n := range fileEdits(test.plan).DeviceNodes {
			got = append(got, filepath.Base(n.Path))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// A software device ends as its interface moves. What is made in the pod on that interface
// is the pod's, and nothing else, whatever it is called.
func TestContainerEditsOfSoftware(t *testing.T) {
	l := newLab(t)
	l.driver.sys = hosttest.Tree(t, rdmaFiles)
	pod := hosttest.NewNamespace(t)
	m := l.machine(t)
	m.NICs[0].RDMA = &model.RDMADevice{Name: "rxe_nic0", Software: true, CharDevices: []string{"/dev/infiniband/uverbs0"}}
	fake := newFakeRDMA(t, rdmaState{Mode: rdma.Shared, Devices: []rdmaStateDevice{{Name: "rxe_nic0", Kind: "rxe", Namespace: inode(l.host.Fd()), On: m.NICs[0].Interface.Index}}})
	l.driver.rdma = fake
	r, err := l.driver.Plan(claim(`{"interface": {"addresses": ["10.0.0.2/24"]}}`, "nic0"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Devices[0].Edits.DeviceNodes) != 0 || r.Devices[0].RDMA {
		t.Errorf("Prepare promises %+v of a device that the move ends", r.Devices[0])
	}
	l.attach(t, r, pod)
	index := l.nicIn(t, pod, "02:00:00:00:00:00").Index
	const verbs = "uverbs9 231:201 666"
	for _, test := range []struct {
		name    string
		mode    rdma.Mode
		devices []rdmaStateDevice
		want    string
	}{
		{"nobody made one", rdma.Shared, nil, ""},
		{"one on the interface", rdma.Shared, []rdmaStateDevice{{Name: "rxe0", Kind: "rxe", Namespace: inode(pod.Fd()), On: index}}, verbs + ", rdma_cm 10:122 666"},
		{"no connection manager in exclusive mode", rdma.Exclusive, []rdmaStateDevice{{Name: "rxe0", Kind: "rxe", Namespace: inode(pod.Fd()), On: index}}, verbs},
		{"one on another interface of the pod", rdma.Shared, []rdmaStateDevice{{Name: "rxe0", Kind: "rxe", Namespace: inode(pod.Fd()), On: index + 1}}, ""},
		{"one of that index in another pod", rdma.Shared, []rdmaStateDevice{{Name: "rxe0", Kind: "rxe", Namespace: 1, On: index}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := fake.write(rdmaState{Mode: test.mode, Devices: test.devices}); err != nil {
				t.Fatal(err)
			}
			e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path())
			if got := filesLine(e, err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	// The pod destroyed its own; the host gets back what it had.
	if err := fake.write(rdmaState{Mode: rdma.Shared}); err != nil {
		t.Fatal(err)
	}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	if got := fake.where(t, map[string]*hosttest.Namespace{"host": l.host, "pod": pod}); got != "rxe_nic0 host" {
		t.Errorf("RDMA devices: %s", got)
	}
}

// The mode may be switched between Prepare and the pod's start, and after the pod's end.
func TestModeOfRDMAChanges(t *testing.T) {
	l := newLab(t)
	l.driver.sys = hosttest.Tree(t, rdmaFiles)
	pod := hosttest.NewNamespace(t)
	places := map[string]*hosttest.Namespace{"host": l.host, "pod": pod}
	own := Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0"), RDMA: &RDMA{Name: "mlx5_0", Exclusive: true}}
	shared := Plan{NIC: own.NIC}
	for _, test := range []struct {
		name     string
		prepared Plan
		mode     rdma.Mode
		attached string    // where the device is, or why nothing is attached
		ended    rdma.Mode // the mode after the pod's end; empty where the pod is still there
	}{
		{"exclusive", own, rdma.Exclusive, "mlx5_0 pod", ""},
		{"shared", shared, rdma.Shared, "mlx5_0 host", ""},
		{"exclusive, now shared", own, rdma.Shared, "mlx5_0 host", ""},
		{"shared, now exclusive", shared, rdma.Exclusive, "RDMA devices were shared by network namespaces as the claim was prepared", ""},
		{"exclusive, shared after the pod", own, rdma.Exclusive, "mlx5_0 pod", rdma.Shared},
		{"exclusive, shared for the pod alone", own, rdma.Shared, "mlx5_0 host", rdma.Exclusive},
		{"shared, exclusive after the pod", shared, rdma.Shared, "mlx5_0 host", rdma.Exclusive},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := newFakeRDMA(t, rdmaState{Mode: test.mode, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(l.host.Fd())}}})
			l.driver.rdma = fake
			r := rdmaRecord(t, test.prepared)
			for range 2 { // repeating it changes nothing
				_, err := l.driver.Attach(t.Context(), r, pod.Path())
				got := fake.where(t, places)
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, test.attached) {
					t.Errorf("attached: %q, want %q", got, test.attached)
				}
			}
			path := pod.Path()
			if test.ended != "" {
				// Only then does the kernel change the mode, and with the namespace it takes
				// the device home.
				path = ""
				if err := fake.write(rdmaState{Mode: test.ended, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(l.host.Fd())}}}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := l.driver.Detach(t.Context(), r, path); err != nil {
					t.Errorf("detach: %v", err)
				}
			}
			if got := fake.where(t, places); got != "mlx5_0 host" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// With its namespace gone the kernel brings an RDMA device back; one that stays away is an
// error, and one whose function was pulled out has gone for good.
func TestRDMADeviceThatStaysAway(t *testing.T) {
	l := newLab(t)
	r := rdmaRecord(t, Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0"), RDMA: &RDMA{Name: "mlx5_0", Exclusive: true}})
	l.driver.rdma = newFakeRDMA(t, rdmaState{Mode: rdma.Exclusive, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: 1}}})
	l.driver.sys = hosttest.Tree(t, rdmaFiles)
	if err := l.driver.Detach(t.Context(), r, ""); err == nil || driver.OnlyGone(err) || !strings.Contains(err.Error(), "has not come back") {
		t.Errorf("elsewhere: %v", err)
	}
	l.driver.sys = hosttest.Tree(t, "class/net/lo/ifindex = 1")
	if err := l.driver.Detach(t.Context(), r, ""); !driver.OnlyGone(err) {
		t.Errorf("pulled out: %v, want gone", err)
	}
}

// When a later device of the claim fails, an RDMA device goes back, too.
func TestRDMADeviceIsRolledBack(t *testing.T) {
	l := newLab(t)
	l.driver.sys = hosttest.Tree(t, rdmaFiles)
	pod := hosttest.NewNamespace(t)
	first := rdmaRecord(t, Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0"), RDMA: &RDMA{Name: "mlx5_0", Exclusive: true}})
	second := rdmaRecord(t, Plan{NIC: hca(t, "mlx5_9", "0000:92:00.0"), RDMA: &RDMA{Name: "mlx5_9", Exclusive: true}})
	first.Devices = append(first.Devices, second.Devices...)
	fake := newFakeRDMA(t, rdmaState{Mode: rdma.Exclusive, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(l.host.Fd())}}})
	l.driver.rdma = fake
	if _, err := l.driver.Attach(t.Context(), first, pod.Path()); err == nil {
		t.Error("a device that is nowhere was attached")
	}
	if got := fake.where(t, map[string]*hosttest.Namespace{"host": l.host, "pod": pod}); got != "mlx5_0 host" {
		t.Errorf("RDMA devices: %s", got)
	}
}

// What Plan would refuse is not offered.
func TestRDMARefusals(t *testing.T) {
	l := newLab(t)
	kept, along := hca(t, "mlx5_0", "0000:91:00.0"), hca(t, "mlx5_1", "0000:92:00.0")
	kept.RDMA.HostInterface = ptr("ib0")
	along.Interface = &model.Interface{Name: "ib1", Encapsulation: ptr("infiniband")}
	for mode, want := range map[rdma.Mode]int{rdma.Exclusive: 2, rdma.Shared: 0, "": 0} {
		l.driver.rdma = newFakeRDMA(t, rdmaState{Mode: mode})
		got, err := l.driver.RDMARefusals([]*model.NIC{&kept, &along})
		if err != nil || len(got) != want {
			t.Errorf("mode %q: %v, %v, want %d", mode, got, err, want)
		}
		if want > 0 && (!strings.Contains(fmt.Sprint(got["mlx5_0"]), "would lose interface ib0") || !strings.Contains(fmt.Sprint(got["mlx5_1"]), "interface ib1 would end")) {
			t.Errorf("refusals %v", got)
		}
	}
}

// IPoIB is refused where its RDMA device would take it away.
func TestPlanRefusesToMoveIPoIB(t *testing.T) {
	for exclusive, want := range map[bool]string{false: "", true: "RDMA device mlx5_0: its IPoIB interface ib0 would end with the move of the device: want a node in mode shared (rdma system set netns shared)"} {
		plan := &Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0"), RDMA: &RDMA{Name: "mlx5_0", Exclusive: exclusive}}
		plan.NIC.Interface = &model.Interface{Name: "ib0", Encapsulation: ptr("infiniband")}
		err := refuseIPoIB(plan)
		if diff := cmp.Diff(want, fmt.Sprint(errors.Join(err))); (err != nil || want != "") && diff != "" {
			t.Errorf("exclusive %t: %s", exclusive, diff)
		}
	}
}

// The interface of another partition key has no RDMA device of its own: it moves alone,
// whoever sees RDMA devices, and no file comes with it.
func TestPlanMovesPKeyChild(t *testing.T) {
	child := model.NIC{Interface: &model.Interface{
		Name: "ib0.8001", Index: 3, Kind: ptr("ipoib"), Encapsulation: ptr("infiniband"), Virtual: true,
		MAC: ptr("80:00:10:27:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:2b:c4:fa"),
	}}
	m, err := model.New(model.Machine{NICs: []model.NIC{child}})
	if err != nil {
		t.Fatal(err)
	}
	device := slicecodec.NICName(m.NICs[0])
	for _, exclusive := range []bool{false, true} {
		known := &boundPlanner{bootID: "boot", facts: facts{nics: map[string]nicFacts{device: seenOf(child)}, exclusive: exclusive}}
		r, err := known.Plan(claim(`{"interface": {"name": "ib1"}}`, device), m, nil)
		if err != nil {
			t.Fatalf("exclusive %t: %v", exclusive, err)
		}
		plan, err := ReadPlan(r.Devices[0])
		if err != nil || plan.Pod == nil || plan.Pod.Name != "ib1" || plan.RDMA != nil || r.Devices[0].RDMA || len(r.Devices[0].Edits.DeviceNodes) > 0 {
			t.Errorf("exclusive %t: %+v, record %+v, %v; want the interface alone", exclusive, plan, r.Devices[0], err)
		}
		if (&Driver{}).MemlockFor(r) {
			t.Errorf("exclusive %t: may lock any amount of memory without an RDMA device", exclusive)
		}
		if _, err := known.Plan(claim(`{"rdma": {"umad": true}}`, device), m, nil); err == nil || !strings.Contains(err.Error(), "the NIC has no RDMA device") {
			t.Errorf("exclusive %t: files of an RDMA device: %v", exclusive, err)
		}
	}
}

// The device of an HCA with two ports is the first one's, and does not leave from under the
// interface of the second.
func TestPlanRefusesHalfAnHCA(t *testing.T) {
	first := hca(t, "mlx4_0", "0000:11:00.0")
	first.Interface = &model.Interface{Name: "eth1", Index: 3, MAC: ptr("02:00:00:00:00:01")}
	second := model.NIC{PCI: first.PCI, Port: ptr("p1"), Interface: &model.Interface{Name: "eth2", Index: 4, MAC: ptr("02:00:00:00:00:02")}}
	m, err := model.New(model.Machine{
		Roots:     []model.PCIRoot{{Name: "pci0000:10", Published: true}},
		Functions: []model.PCIFunction{{Address: *first.PCI, Root: "pci0000:10"}},
		NICs:      []model.NIC{first, second},
	})
	if err != nil {
		t.Fatal(err)
	}
	one, two := slicecodec.NICName(first), slicecodec.NICName(second)
	plan := func(exclusive bool, c driver.Claim, held ...driver.Record) (driver.Record, error) {
		known := facts{exclusive: exclusive, nics: map[string]nicFacts{one: seenOf(first), two: seenOf(second)}}
		return (&boundPlanner{bootID: "boot", facts: known}).Plan(c, m, held)
	}
	other := claim("", two)
	other.Name = "other"
	held, err := plan(true, other)
	if err != nil {
		t.Fatalf("the interface of the second port alone: %v", err)
	}
	watched := claim("", one, two)
	watched.Devices[1].AdminAccess = true
	both := claim(`{"interface": {"name": "net1"}}`, one)
	both.Devices = append(both.Devices, claim(`{"interface": {"name": "net2"}}`, two).Devices...)
	const refused = "RDMA device mlx4_0: its other port is interface eth2, device pci-0000-11-00-0-p1, which "
	const wanted = ": want both in one claim, or a node in mode shared (rdma system set netns shared)"
	for _, test := range []struct {
		name      string
		exclusive bool
		claim     driver.Claim
		held      []driver.Record
		want      string // empty: not refused
	}{
		{"the second is on the host", true, claim("", one), nil, refused + "stays on the host" + wanted},
		{"the second is another claim's", true, claim("", one), []driver.Record{held}, refused + "claim default/other holds" + wanted},
		{"the second is only watched", true, watched, nil, refused + "stays on the host" + wanted},
		{"both in one claim", true, both, nil, ""},
		{"shared", false, claim("", one), nil, ""},
		{"shared, and the second is another claim's", false, claim("", one), []driver.Record{held}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := plan(test.exclusive, test.claim, test.held...)
			if test.want != "" {
				if err == nil || !strings.HasSuffix(err.Error(), test.want) || driver.OnlyHeld(err) {
					t.Errorf("%v, want %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p, err := ReadPlan(r.Devices[0]); err != nil || (p.RDMA != nil && p.RDMA.Exclusive) != test.exclusive {
				t.Errorf("plan of the RDMA device %+v, %v; moves: want %t", p.RDMA, err, test.exclusive)
			}
		})
	}
}

// Of two claims that name one HCA the second is refused, with the name of the first, whether
// the HCA has an interface or not.
func TestTwoClaimsOfOneHCA(t *testing.T) {
	for _, device := range []string{"pci-0000-91-00-0", "pci-0000-95-00-0"} {
		mine, other := claim("", device), claim("", device)
		other.UID, other.Name = "another", "other"
		held, err := planIn(t, other)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := planIn(t, mine, held); err == nil || !strings.HasSuffix(err.Error(), "device "+device+": claim default/other holds it") || !driver.OnlyHeld(err) {
			t.Errorf("%s twice: %v", device, err)
		}
	}
}

// Only who holds an RDMA device may lock any amount of memory: not who has a NIC without
// one, and not who only watches.
func TestMemlockFor(t *testing.T) {
	watched := claim("", "pci-0000-91-00-0")
	watched.Devices[0].AdminAccess = true
	for name, tt := range map[string]struct {
		claim driver.Claim
		want  bool
	}{
		"an interface with an RDMA device": {claim("", "pci-0000-91-00-0"), true},
		"an RDMA device alone":             {claim("", "pci-0000-95-00-0"), true},
		"one of two NICs has one":          {claim("", "pci-0000-93-00-0", "pci-0000-91-00-0"), true},
		"no RDMA device":                   {claim("", "pci-0000-93-00-0"), false},
		"admin access":                     {watched, false},
	} {
		r, err := planIn(t, tt.claim)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Driver{}).MemlockFor(r); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
	if (&Driver{}).MemlockFor(driver.Record{Devices: []driver.DeviceRecord{{Device: "x", Plan: []byte(`"no plan"`)}}}) {
		t.Error("a plan that cannot be read holds none")
	}
}
