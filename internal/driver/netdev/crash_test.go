// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// The test runs itself with these, as a process to be killed.
var (
	crashDo     = flag.String("crash-do", "", "stage, attach, detach or unstage: what the process does before it is killed")
	crashAfter  = flag.Int("crash-after", 0, "the number of changes to the kernel after which the process kills itself")
	crashRecord = flag.String("crash-record", "", "file of the record")
	crashRDMA   = flag.String("crash-rdma", "", "file of the RDMA subsystem")
	crashPF     = flag.String("crash-pf", "", "file of the physical function, whose changes alone count where it is given")
)

// Descriptors of the namespaces in the process to be killed.
const crashHost, crashPod = "/proc/self/fd/3", "/proc/self/fd/4"

// TestCrashHelper is that process.
func TestCrashHelper(t *testing.T) {
	if *crashDo == "" {
		t.Skip("runs as a process of other tests only")
	}
	text, err := os.ReadFile(*crashRecord)
	if err != nil {
		t.Fatal(err)
	}
	var r driver.Record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Host: crashHost, BootID: "boot", Sys: fstest.MapFS{}})
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	step := func() {
		if changes++; changes == *crashAfter {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if *crashPF != "" {
		pf := &fakePF{path: *crashPF, step: step, namespaces: []int{3, 4}}
		d.host.VFs, d.host.Sys = pf, pf.tree(t)
	} else {
		fake := fakeRDMA{path: *crashRDMA}
		d.rdma, d.host.Changed = fake, step
		d.host.OnChange(func() {
			fake.endSoftware(t, d.host.Fd())
			step()
		})
	}
	switch *crashDo {
	case "stage":
		_, err = d.Stage(t.Context(), r)
	case "attach":
		_, err = d.Attach(t.Context(), r, crashPod)
	case "detach":
		err = d.Detach(t.Context(), r, crashPod)
	case "unstage":
		err = d.Unstage(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// crashing is a lab with a claim of two NICs, one of them with an RDMA device of its own.
type crashing struct {
	*lab
	pod *hosttest.Namespace
	// planned is the record as it was first journaled, staged as it was then.
	planned, staged driver.Record
	// before and empty are host and pod without the claim, inside is the pod with
	// it; rules are the pod's without it.
	before, empty, inside, rules string
	// vfs are the virtual functions on the host, vfsInPod those in the pod.
	vfs, vfsInPod []rtnl.VF
	// rdmaInPod is where the RDMA device is while the pod has the claim.
	rdmaInPod string
}

// full is everything of a configuration that a host of namespaces has.
const full = `{
	"interface": {"mtu": 1400, "gsoMaxSize": 32768, "groMaxSize": 32768, "forwarding": true, "arpIgnore": 1, "arpAnnounce": 2},
	"routes": [
		{"destination": "10.60.0.0/16", "gateway": "10.44.0.1", "metric": 50, "mtu": 1300},
		{"destination": "10.44.0.1/32", "scope": 253}
	],
	"rules": [{"priority": 900, "source": "10.44.0.0/16", "table": 77}],
	"neighbors": [{"ipAddress": "10.44.0.7", "hardwareAddr": "02:00:00:00:07:07"}],
	"ethtool": {"features": {"tx-tcp-segmentation": false}}
}`

// The same of a kill before and after each setting of a virtual function through its
// physical one.
func TestKilledAtAnySettingOfAVF(t *testing.T) {
	if testing.Short() {
		t.Skip("the physical function's driver is a stand-in: the same on every kernel")
	}
	for _, do := range []string{"stage", "attach", "detach", "unstage"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			newCrashingVF(t).killEverywhere(t, do)
		})
	}
}

// newCrashingVF is a lab with a claim of two virtual functions.
func newCrashingVF(t *testing.T) *crashing {
	t.Helper()
	c := &crashing{lab: newLab(t), pod: hosttest.NewNamespace(t)}
	pf := c.newPF(t, true, c.pod)
	c.host.Run(t, "ip address add 10.44.0.2/24 dev nic0")
	c.before, c.empty, c.rules, c.vfs = look(t, c.host), look(t, c.pod), rulesOf(t, c.pod), pf.read(t).VFs
	request := claim(vfParameters, vfZero, vfOne)
	request.Devices[1].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"vf": {"vlan": 7}}}`)}}
	var err error
	if c.planned, err = c.driver.Plan(request, c.withVFs(t, nil), nil); err != nil {
		t.Fatal(err)
	}
	c.staged = c.stage(t)
	c.attach(t, c.staged, c.pod)
	c.inside, c.vfsInPod = look(t, c.pod), pf.read(t).VFs
	want := []rtnl.VF{{Number: 0, VFSettings: setVF}, {Number: 1, VFSettings: rtnl.VFSettings{MAC: ptr(rtnl.NoMAC), VLAN: &rtnl.VFVLAN{ID: 7, Protocol: 0x8100}}}}
	pf.expect(t, "in the pod", want)
	c.back(t, "before the first kill")
	return c
}

// After a kill at any change to the kernel, a new process that has only the record can
// attach the pod's NICs, or restore the host's: with an RDMA device that moves itself, and
// with one that the kernel ends and that is made again on the host.
func TestKilledAnywhere(t *testing.T) {
	for _, do := range []string{"stage", "attach", "detach", "unstage"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			newCrashing(t, rdma.Exclusive, "", "mlx5_0 pod").killEverywhere(t, do)
		})
	}
	for _, do := range []string{"attach", "detach"} {
		t.Run(do+" with software", func(t *testing.T) {
			t.Parallel()
			newCrashing(t, rdma.Shared, "rxe", "").killEverywhere(t, do)
		})
	}
}

func (c *crashing) killEverywhere(t *testing.T, do string) {
	t.Helper()
	kills, step := 0, 1
	if testing.Short() {
		step = 6 // of a virtual machine's seconds
	}
	for k := 1; ; k += step {
		c.prepare(t, do)
		if !c.kill(t, do, k) {
			break
		}
		kills++
		c.prove(t, do, k)
		if t.Failed() {
			return
		}
	}
	c.back(t, do+" to its end")
	t.Logf("killed after %d changes of %s, one by one", kills, do)
	if kills == 0 {
		t.Errorf("%s changes nothing: this test proves nothing", do)
	}
}

// newCrashing is a lab with a claim of two NICs, one of which has an RDMA device, hardware
// or of a kind of software, which is at a place while the pod has the claim.
func newCrashing(t *testing.T, mode rdma.Mode, kind, inPod string) *crashing {
	t.Helper()
	c := &crashing{lab: newLab(t), pod: hosttest.NewNamespace(t), rdmaInPod: inPod}
	nic, err := c.driver.host.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	fake := newFakeRDMA(t, rdmaState{Mode: mode, Devices: []rdmaStateDevice{{Name: "mlx5_0", Kind: kind, Namespace: inode(c.host.Fd()), On: nic.Index}}})
	c.rdma = &fake
	c.driver = c.newDriver(t)
	c.host.Run(t, busy+neighbourly)
	c.host.Run(t, `
		ip address add 10.46.0.2/24 dev nic1
		ip link set nic1 up
		ip route add 10.47.0.0/16 via 10.46.0.1 dev nic1 src 10.46.0.2
		ip route add 10.48.0.1 dev nic1 table 88
		ip route add 10.49.0.0/16 via 10.48.0.1 dev nic1 onlink
		ip rule add from 10.45.0.0/16 lookup 88 pref 880
		ip neighbour add 10.48.0.1 lladdr 02:00:00:00:48:01 nud permanent dev nic1
		ip route add 172.16.0.0/16 nexthop dev nic0 weight 2 nexthop dev nic1`)
	c.pod.Run(t, quiet)
	c.before, c.empty, c.rules = look(t, c.host), look(t, c.pod), rulesOf(t, c.pod)
	request := claim(full, "nic0", "nic1")
	request.Devices[1].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"name": "second", "addresses": ["10.45.0.2/24", "fd45::2/64"]}}`)}}
	c.planned = c.plan(t, request)
	c.staged = c.stage(t)
	c.attach(t, c.staged, c.pod)
	c.inside = look(t, c.pod)
	c.rdmaIn(t, "attached", c.rdmaInPod)
	c.back(t, "before the first kill")
	return c
}

func (c *crashing) stage(t *testing.T) driver.Record {
	t.Helper()
	staged, err := c.newDriver(t).Stage(t.Context(), c.planned)
	if err != nil {
		t.Fatal(err)
	}
	return staged
}

// prepare does what comes before a step.
func (c *crashing) prepare(t *testing.T, do string) {
	t.Helper()
	if do == "stage" {
		return
	}
	c.staged = c.stage(t)
	if do == "detach" {
		c.attach(t, c.staged, c.pod)
	}
}

// kill runs a step in a process that ends after k changes, and tells whether it was
// killed before the step was complete.
func (c *crashing) kill(t *testing.T, do string, k int) bool {
	t.Helper()
	r := c.staged
	if do == "stage" {
		r = c.planned
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "record.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashHelper$", "-test.count=1",
		"-crash-do", do, "-crash-after", strconv.Itoa(k), "-crash-record", path)
	if c.pf != nil {
		child.Args = append(child.Args, "-crash-pf", c.pf.path)
	} else {
		child.Args = append(child.Args, "-crash-rdma", c.rdma.path)
	}
	child.ExtraFiles = []*os.File{c.descriptor(t, c.host), c.descriptor(t, c.pod)}
	out, err := child.CombinedOutput()
	status, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", do, err, out)
	}
	return false
}

func (c *crashing) descriptor(t *testing.T, ns *hosttest.Namespace) *os.File {
	t.Helper()
	f, err := os.Open(ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// prove recovers from a kill in both ways: attach again, or undo. A record that Stage
// did not return was never journaled, so that the planned one is used.
func (c *crashing) prove(t *testing.T, do string, k int) {
	t.Helper()
	what := fmt.Sprintf("killed in %s after change %d", do, k)
	if do == "stage" {
		c.staged = c.planned
	}
	c.driver = c.newDriver(t)
	c.back(t, what)
	// The same again, and this time on into the pod.
	c.prepare(t, do)
	if !c.kill(t, do, k) {
		t.Fatalf("%s: the second time it came to its end", what)
	}
	c.driver = c.newDriver(t)
	c.staged = c.stage(t)
	c.attach(t, c.staged, c.pod)
	expect(t, what+", then attached: the pod", c.inside, c.pod)
	if c.pf != nil {
		c.pf.expect(t, what+", then attached", c.vfsInPod)
	}
	c.rdmaIn(t, what+", then attached", c.rdmaInPod)
	c.back(t, what+", then attached")
}

// rdmaIn compares where the RDMA device is.
func (c *crashing) rdmaIn(t *testing.T, what, want string) {
	t.Helper()
	if c.rdma == nil {
		return
	}
	if got := c.rdma.where(t, map[string]*hosttest.Namespace{"host": c.host, "pod": c.pod}); got != want {
		t.Errorf("%s: RDMA devices: %q, want %q", what, got, want)
	}
}

// back detaches and unstages, and compares host and pod with what they were.
func (c *crashing) back(t *testing.T, what string) {
	t.Helper()
	if err := c.driver.Detach(t.Context(), c.staged, c.pod.Path()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if err := c.driver.Unstage(t.Context(), c.staged); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	expect(t, what+": the host", c.before, c.host)
	expect(t, what+": the pod", c.empty, c.pod)
	if c.pf != nil {
		c.pf.expect(t, what, c.vfs)
	}
	c.rdmaIn(t, what, "mlx5_0 host")
	if got := rulesOf(t, c.pod); got != c.rules {
		t.Errorf("%s: the pod's rules are\n%s\nwant\n%s", what, got, c.rules)
	}
}
