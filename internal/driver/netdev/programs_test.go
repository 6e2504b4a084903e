// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/bpftest"
)

// bpffs gives the lab a BPF file system of its own.
func (l *lab) bpffs(t *testing.T) {
	t.Helper()
	dir := bpftest.FS(t)
	l.driver.host.BPFFS, l.driver.host.Programs = dir, bpf.Store{Dir: filepath.Join(dir, "plumbline")}
}

// putProgram puts a program on nic0 by tcx, and keeps nothing that would keep
// it alive.
func (l *lab) putProgram(t *testing.T, name string) {
	t.Helper()
	p := bpftest.Program(t, name, ebpf.SchedCLS, -1)
	nic, err := l.driver.host.LinkByName("nic0")
	if err != nil || nic == nil {
		t.Fatal(nic, err)
	}
	l.host.Do(t, func() error {
		err = link.RawAttachProgram(link.RawAttachProgramOptions{Target: nic.Index, Program: p, Attach: ebpf.AttachTCXIngress})
		return nil
	})
	bpftest.NeedTCX(t, errors.Join(err, p.Close()))
}

func openConn(t *testing.T, ns *hosttest.Namespace) *nslink.NetNSConn {
	t.Helper()
	s, err := nslink.Open(ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (l *lab) programs(t *testing.T, ns *hosttest.Namespace) string {
	t.Helper()
	conn, index := l.driver.host.Conn, 0
	if ns != nil {
		pod, err := l.driver.openPod(ns.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer pod.Close()
		conn = pod.Conn
	} else {
		ns = l.host
	}
	nic, err := conn.LinkByName("nic0")
	if err != nil || nic == nil {
		t.Fatal(nic, err)
	}
	index = nic.Index
	list, err := bpf.List(ns.Fd(), conn, index, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range list {
		names = append(names, a.ProgramName)
	}
	return strings.Join(names, " ")
}

// The host's programs are detached while the pod has the NIC, and attached in their
// order when it is back, even though only the driver held them.
func TestProgramsComeOffAndBack(t *testing.T) {
	for name, c := range map[string]struct{ parameters, staged, inPod string }{
		"disabled": {`{"interface": {"disableEbpfPrograms": true}}`, "", ""},
		"left on":  {`{"interface": {"disableEbpfPrograms": false}}`, "first second", "first second"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.bpffs(t)
			l.putProgram(t, "first")
			l.putProgram(t, "second")
			before := look(t, l.host)
			r, err := l.driver.Stage(t.Context(), l.plan(t, claim(c.parameters, "nic0")))
			if err != nil {
				t.Fatal(err)
			}
			if got := l.programs(t, nil); got != c.staged {
				t.Errorf("staged, the host's NIC has %q, want %q", got, c.staged)
			}
			if c.staged == "" { // the owner puts one on again, before the NIC is gone
				l.putProgram(t, "late")
			}
			pod := hosttest.NewNamespace(t)
			l.attach(t, r, pod)
			if got := l.programs(t, pod); got != c.inPod {
				t.Errorf("in the pod: %q, want %q", got, c.inPod)
			}
			if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := l.driver.Unstage(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if got := l.programs(t, nil); got != "first second" {
					t.Errorf("given back: %q", got)
				}
			}
			expect(t, "the host", before, l.host)
			held, err := filepath.Glob(filepath.Join(l.driver.host.Programs.Dir, "*"))
			if err != nil || len(held) > 0 {
				t.Errorf("still held: %q, %v", held, err)
			}
		})
	}
}

// An agent that ended between detaching programs and returning the staged record finds
// them by the planned record.
func TestProgramsWithoutTheStagedRecord(t *testing.T) {
	l := newLab(t)
	l.bpffs(t)
	l.putProgram(t, "first")
	planned := l.plan(t, claim(`{"interface": {"disableEbpfPrograms": true}}`, "nic0"))
	if _, err := l.driver.Stage(t.Context(), planned); err != nil {
		t.Fatal(err)
	}
	if err := l.driver.Unstage(t.Context(), planned); err != nil {
		t.Fatal(err)
	}
	if got := l.programs(t, nil); got != "first" {
		t.Errorf("given back: %q", got)
	}
}

// What a pod has put on a NIC that outlives the move, an XDP and a tcx program,
// does not come to the host, nor to the next pod.
func TestProgramsOfThePodStayThere(t *testing.T) {
	l := newLab(t)
	l.bpffs(t)
	l.putProgram(t, "first")
	before := look(t, l.host)
	r, err := l.driver.Stage(t.Context(), l.plan(t, claim("", "nic0")))
	if err != nil {
		t.Fatal(err)
	}
	pod := hosttest.NewNamespace(t)
	l.attach(t, r, pod)
	inPod := &lab{host: pod, driver: &Driver{host: &hoststate.Host{NetNSConn: openConn(t, pod)}}}
	inPod.putProgram(t, "pods")
	pin := filepath.Join(l.driver.host.BPFFS, "xdp")
	pass := bpftest.Program(t, "pods_xdp", ebpf.XDP, 2) // XDP_PASS
	if err := errors.Join(pass.Pin(pin), pass.Close()); err != nil {
		t.Fatal(err)
	}
	pod.Run(t, "ip link set nic0 xdpgeneric pinned "+pin)
	if err := os.Remove(pin); err != nil {
		t.Fatal(err)
	}
	if got := l.programs(t, pod); got != "first pods" || !inPod.nicIn(t, pod, "02:00:00:00:00:00").XDP {
		t.Fatalf("in the pod: %q, and XDP %t", got, inPod.nicIn(t, pod, "02:00:00:00:00:00").XDP)
	}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	if err := l.driver.Unstage(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := l.programs(t, nil); got != "first" {
		t.Errorf("given back: %q", got)
	}
	expect(t, "the host", before, l.host)
	if _, err := l.driver.Plan(claim("", "nic0"), l.machine(t), nil); err != nil {
		t.Errorf("the next claim: %v", err)
	}
}

// A program that its owner detached before staging is not expected back.
func TestProgramsThatWentByThemselves(t *testing.T) {
	l := newLab(t)
	l.bpffs(t)
	l.putProgram(t, "first")
	planned := l.plan(t, claim("", "nic0"))
	nic, err := l.driver.host.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	list, err := bpf.List(l.host.Fd(), l.driver.host.Conn, nic.Index, "")
	if err == nil {
		err = bpf.Detach(l.host.Fd(), l.driver.host.Conn, nic.Index, list)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.driver.Unstage(t.Context(), planned); err != nil {
		t.Error(err)
	}
}

func TestProgramsNeedAPlace(t *testing.T) {
	l := newLab(t)
	l.putProgram(t, "first")
	c := claim(`{"interface": {"disableEbpfPrograms": true}}`, "nic0")
	if _, err := l.driver.Plan(c, l.machine(t), []driver.Record{}); err == nil || !strings.Contains(err.Error(), "no BPF file system to keep it in") {
		t.Errorf("error %v", err)
	}
}
