// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/bpftest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// lab is a namespace with nic0, and a bpffs of the test's own.
type lab struct {
	ns    *hosttest.Namespace
	conn  *rtnl.Conn
	nic   int
	bpffs string
	store Store
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{ns: hosttest.NewNamespace(t), bpffs: bpftest.FS(t)}
	l.store = Store{Dir: filepath.Join(l.bpffs, "plumbline")}
	hosttest.Veth(t, l.ns, "nic0", l.ns, "nic1")
	l.ns.Run(t, "ip link set nic0 up")
	l.conn = dial(t, l.ns)
	l.nic = indexOf(t, l.conn)
	return l
}

func dial(t *testing.T, ns *hosttest.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func indexOf(t *testing.T, conn *rtnl.Conn) int {
	t.Helper()
	nic, err := conn.LinkByName("nic0")
	if err != nil || nic == nil {
		t.Fatalf("nic0: %v, %v", nic, err)
	}
	return nic.Index
}

// program lets packets through.
func program(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	return bpftest.Program(t, name, ebpf.SchedCLS, -1)
}

func (l *lab) list(t *testing.T) []Attachment {
	t.Helper()
	list, err := List(l.ns.Fd(), l.conn, l.nic, l.bpffs)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// places is what is attached, without ids that change.
func places(list []Attachment) []string {
	var out []string
	for _, a := range list {
		text := fmt.Sprintf("%s %s %s", a.Kind, a.Direction, a.ProgramName)
		if a.Link != 0 {
			text += " by link"
		}
		for _, path := range a.Pins {
			if !strings.Contains(path, "/plumbline/") {
				text += " at " + filepath.Base(path)
			}
		}
		if a.Filter != nil {
			text += fmt.Sprintf(" pref %d handle %d %s", a.Filter.Priority, a.Filter.Handle, a.Filter.Name)
		}
		out = append(out, text)
	}
	return out
}

func (l *lab) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := places(l.list(t)); !slices.Equal(got, want) {
		t.Errorf("%s:\n%q, want\n%q", what, got, want)
	}
}

// journal is what a record does to a list.
func journal(t *testing.T, list []Attachment) []Attachment {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var out []Attachment
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (l *lab) attachTC(t *testing.T, p *ebpf.Program, direction string, more string) {
	t.Helper()
	path := filepath.Join(l.bpffs, "pin_"+fmt.Sprint(idOf(p)))
	if _, err := os.Stat(path); err != nil {
		if err := p.Pin(path); err != nil {
			t.Fatal(err)
		}
	}
	l.ns.Run(t, fmt.Sprintf("tc filter add dev nic0 %s %s bpf direct-action object-pinned %s", direction, more, path))
}

func TestTC(t *testing.T) {
	l := newLab(t)
	in, out := program(t, "in"), program(t, "out")
	l.ns.Run(t, "tc qdisc add dev nic0 clsact")
	l.attachTC(t, in, "ingress", "pref 7 handle 3")
	l.attachTC(t, out, "egress", "protocol ip pref 9")
	closeQuietly(in)
	want := places(l.list(t))
	if len(want) != 2 || !strings.HasPrefix(want[0], "tc ingress in at pin_") || !strings.Contains(want[0], "pref 7 handle 3") {
		t.Fatalf("attached %q", want)
	}
	shown := l.show(t)
	held, err := l.store.Hold("claim-1", l.list(t))
	if err != nil {
		t.Fatal(err)
	}
	held = journal(t, held)
	for range 2 {
		if err := Detach(l.ns.Fd(), l.conn, l.nic, held); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(t, "detached")
	// The owners let go of everything.
	for _, path := range []string{held[0].Pins[0], held[1].Pins[0]} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	closeQuietly(out)
	for range 2 {
		if err := l.store.Restore(l.ns.Fd(), l.conn, l.nic, held); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.show(t); got != shown {
		t.Errorf("restored\n%swant\n%s", got, shown)
	}
	l.release(t, "claim-1")
}

func (l *lab) show(t *testing.T) string {
	t.Helper()
	return l.ns.Run(t, "tc filter show dev nic0 ingress\ntc filter show dev nic0 egress")
}

func (l *lab) release(t *testing.T, key string) {
	t.Helper()
	for range 2 {
		if err := l.store.Release(key); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(l.store.Dir); err != nil || len(entries) != 0 {
		t.Errorf("after the release %v, %v", entries, err)
	}
}

func (l *lab) attachTCX(t *testing.T, p *ebpf.Program, direction string, byLink bool) link.Link {
	t.Helper()
	var tcx link.Link
	err := netns.Do(l.ns.Fd(), func() (err error) {
		if byLink {
			tcx, err = link.AttachTCX(link.TCXOptions{Interface: l.nic, Program: p, Attach: attachTypes[direction]})
			return err
		}
		return link.RawAttachProgram(link.RawAttachProgramOptions{Target: l.nic, Program: p, Attach: attachTypes[direction]})
	})
	bpftest.NeedTCX(t, err)
	return tcx
}

func TestTCX(t *testing.T) {
	l := newLab(t)
	a, b, c, d := program(t, "a"), program(t, "b"), program(t, "c"), program(t, "d")
	l.attachTCX(t, a, rtnl.Ingress, false)
	pinned := l.attachTCX(t, b, rtnl.Ingress, true)
	if err := pinned.Pin(filepath.Join(l.bpffs, "b_link")); err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(pinned)
	open := l.attachTCX(t, c, rtnl.Ingress, true)
	defer closeQuietly(open)
	l.attachTCX(t, d, rtnl.Egress, false)
	before := l.list(t)
	l.expect(t, "attached", "tcx ingress a", "tcx ingress b by link at b_link", "tcx ingress c by link", "tcx egress d")
	held, err := l.store.Hold("claim-1", before)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.store.Hold("claim-1", held); err != nil || len(again) != 4 {
		t.Errorf("held again: %v, %v", again, err)
	}
	held = journal(t, held)
	for range 2 {
		if err := Detach(l.ns.Fd(), l.conn, l.nic, held); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(t, "detached")
	closeQuietly(a)
	closeQuietly(d)
	// One that came meanwhile stays, behind those that were there before.
	e := program(t, "e")
	l.attachTCX(t, e, rtnl.Ingress, false)
	for range 2 {
		if err := l.store.Restore(l.ns.Fd(), l.conn, l.nic, held); err != nil {
			t.Fatal(err)
		}
	}
	// A BPF link that only a process holds cannot come back as one.
	l.expect(t, "restored", "tcx ingress a", "tcx ingress b by link at b_link", "tcx ingress c", "tcx ingress e", "tcx egress d")
	l.release(t, "claim-1")
	l.expect(t, "released", "tcx ingress a", "tcx ingress b by link at b_link", "tcx ingress c", "tcx ingress e", "tcx egress d")
}

// A process that was killed between the new pin and its name leaves the program
// in its place, and a pin that nobody looks for.
func TestKilledBetweenPins(t *testing.T) {
	l := newLab(t)
	p := program(t, "p")
	path := filepath.Join(l.bpffs, "p_link")
	first := l.attachTCX(t, p, rtnl.Ingress, true)
	if err := first.Pin(path); err != nil {
		t.Fatal(err)
	}
	closeQuietly(first)
	held, err := l.store.Hold("claim-1", l.list(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := Detach(l.ns.Fd(), l.conn, l.nic, held); err != nil {
		t.Fatal(err)
	}
	second := l.attachTCX(t, p, rtnl.Ingress, true)
	if err := second.Pin(path + besideSuffix); err != nil {
		t.Fatal(err)
	}
	closeQuietly(second)
	l.expect(t, "killed", "tcx ingress p by link at p_link-plumbline")
	for range 2 {
		if err := l.store.Restore(l.ns.Fd(), l.conn, l.nic, held); err != nil {
			t.Fatal(err)
		}
		l.expect(t, "restored", "tcx ingress p by link at p_link")
	}
}

// A move ends filters and leaves tcx programs.
func TestMove(t *testing.T) {
	l := newLab(t)
	p, q := program(t, "p"), program(t, "q")
	l.attachTCX(t, p, rtnl.Ingress, false)
	l.ns.Run(t, "tc qdisc add dev nic0 clsact")
	l.attachTC(t, q, "egress", "pref 1 handle 1")
	before := l.list(t)
	held, err := l.store.Hold("uid", before)
	if err != nil {
		t.Fatal(err)
	}
	pod := hosttest.NewNamespace(t)
	there := dial(t, pod)
	if err := l.conn.Move(l.nic, pod.Fd(), rtnl.Change{}); err != nil {
		t.Fatal(err)
	}
	inPod, err := List(pod.Fd(), there, indexOf(t, there), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := places(inPod); !slices.Equal(got, []string{"tcx ingress p"}) {
		t.Errorf("in the pod there is %q", got)
	}
	if err := Detach(pod.Fd(), there, indexOf(t, there), held); err != nil {
		t.Fatal(err)
	}
	if err := there.Move(indexOf(t, there), l.ns.Fd(), rtnl.Change{}); err != nil {
		t.Fatal(err)
	}
	l.nic = indexOf(t, l.conn)
	if err := l.store.Restore(l.ns.Fd(), l.conn, l.nic, held); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "back", places(before)...)
}

func TestRefusals(t *testing.T) {
	l := newLab(t)
	p := program(t, "p")
	list := []Attachment{{Kind: TCX, Direction: rtnl.Ingress, Program: idOf(p)}}
	for _, key := range []string{"", "a.b", "../x", "a/b"} {
		if _, err := l.store.Hold(key, list); err == nil {
			t.Errorf("key %q was taken", key)
		}
		if err := l.store.Release(key); err == nil {
			t.Errorf("key %q was released", key)
		}
	}
	if _, err := (Store{Dir: filepath.Join(t.TempDir(), "plumbline")}).Hold("key", list); err == nil ||
		!strings.Contains(err.Error(), "bpffs") {
		t.Errorf("held outside a bpffs: %v", err)
	}
	if list, err := l.store.Hold("key", nil); list != nil || err != nil {
		t.Errorf("holding nothing: %v, %v", list, err)
	}
	gone := []Attachment{{Kind: TCX, Direction: rtnl.Ingress, Program: 1 << 30, ProgramName: "gone"}}
	if err := l.store.Restore(l.ns.Fd(), l.conn, l.nic, gone); err == nil || !strings.Contains(err.Error(), "tcx ingress program 1073741824 (gone)") {
		t.Errorf("restoring a program that ended: %v", err)
	}
	if _, err := List(l.ns.Fd(), l.conn, l.nic, filepath.Join(l.bpffs, "none")); err != nil {
		t.Errorf("nothing attached, no bpffs: %v", err)
	}
	// Keys that begin alike are not the same.
	for _, key := range []string{"claim", "claim-1"} {
		if _, err := l.store.Hold(key, list); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.store.Release("claim"); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(l.store.Dir); len(entries) != 1 || entries[0].Name() != "claim-1-0" {
		t.Errorf("left of claim-1: %v", entries)
	}
}
