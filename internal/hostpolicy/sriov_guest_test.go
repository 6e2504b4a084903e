// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// sriovGuest is an agent and a plumbline-host-setup of a virtual machine, which take turns.
type sriovGuest struct {
	pf     hosttest.PhysicalFunction
	rec    *Reconciler
	asker  *hostsetup.Asker
	gate   *Gate
	server hostsetup.Server
	held   []model.NIC
}

func newSRIOVGuest(t *testing.T) *sriovGuest {
	t.Helper()
	pf, dir := hosttest.NeedSRIOV(t), t.TempDir()
	folder := filepath.Join(dir, hostsetup.Folder)
	asker, err := hostsetup.NewAsker(folder, "b")
	if err != nil {
		t.Fatal(err)
	}
	h := hostsetup.Host{Sys: "/sys", ProcSys: "/proc/sys"}
	g := &sriovGuest{pf: pf, asker: asker, gate: &Gate{}, server: hostsetup.Server{Dir: folder, BootID: "b", Host: h}}
	held := func() ([]model.NIC, error) { return g.held, nil }
	g.rec = &Reconciler{File: filepath.Join(dir, "p"), BootID: "b", Kernel: Live{Host: h, Asker: asker, Held: held, Gate: g.gate}}
	return g
}

// turn is one look of the agent and one of the other side.
func (g *sriovGuest) turn(t *testing.T, p []Policy) []Result {
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
	m, _, err := inventory.Scan(t.Context(), inventory.Sources{Sys: os.DirFS("/sys"), Links: links}, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.asker.Begin(); err != nil {
		t.Fatal(err)
	}
	g.gate.Begin(g.asker.Functions(hostsetup.FieldNumVFs))
	results, err := g.rec.Run(p, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.asker.End(); err != nil {
		t.Fatal(err)
	}
	g.gate.End(g.asker.Functions(hostsetup.FieldNumVFs), g.asker.Unsettled())
	request, err := g.server.Next()
	if err == nil {
		err = g.server.CarryOut(t.Context(), request)
	}
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// until takes turns until the number of virtual functions and what the policy's result
// says are as wanted: longer than claims are kept away before a change.
func (g *sriovGuest) until(t *testing.T, p []Policy, count, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(closedFor + 30*time.Second); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		results := g.turn(t, p)
		have, err := g.server.Host.Read(g.pf.Address, fieldNumVFs)
		if err != nil {
			t.Fatal(err)
		}
		got = have + " virtual functions: "
		for _, r := range results {
			got += fmt.Sprintf("%s %s", r.State, r.Reason)
		}
		if have == count && strings.Contains(got, want) {
			return
		}
	}
	t.Fatalf("%s, want %s: %s", got, count, want)
}

// TestSRIOVNumVFs gives a real physical function its virtual ones by a policy, another
// number of them when no pod has one any more, and none when no policy wants any.
func TestSRIOVNumVFs(t *testing.T) {
	g := newSRIOVGuest(t)
	want := func(n int) []Policy {
		return []Policy{{Name: "vfs", Links: []LinkPolicy{{PCIAddress: g.pf.Address, NumVFs: &n}}}}
	}
	g.until(t, want(3), "3", string(Applied))
	vfs := g.pf.AwaitVFs(t, 3)
	g.until(t, want(8), "3", "8 is more than ")

	pod := hosttest.NewNamespace(t)
	g.pf.Lend(t, vfs[1], pod)
	g.until(t, want(2), "3", "virtual function "+vfs[1]+" is in another network namespace than the host's")
	pod.Close()
	g.pf.AwaitVFs(t, 3)

	address, err := model.ParsePCIAddress(vfs[2])
	if err != nil {
		t.Fatal(err)
	}
	g.held = []model.NIC{{PCI: &address}}
	g.until(t, want(2), "3", "a claim holds virtual function "+vfs[2])
	g.held = nil
	g.until(t, want(2), "2", string(Applied))
	g.pf.AwaitVFs(t, 2)
	g.until(t, nil, "0", "")
}
