// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/sysctl"
	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/model"
)

func TestValidateHost(t *testing.T) {
	for want, h := range map[string]HostPolicy{
		`modules[0]: module "mlx5_core": want one of gdrdrv,`: {Modules: []string{"mlx5_core"}},
		`modules[0]: module "../x"`:                           {Modules: []string{"../x"}},
		`sysctls["kernel.core_pattern"]: a policy may not`:    {Sysctls: map[string]string{"kernel.core_pattern": "|/bin/sh"}},
		`sysctls["kernel.numa_balancing"]: sysctl`:            {Sysctls: map[string]string{"kernel.numa_balancing": "2"}},
		`want 1 numbers`:                         {Sysctls: map[string]string{"net.core.rmem_max": "1"}},
		`want 3 numbers`:                         {Sysctls: map[string]string{"net.ipv4.tcp_rmem": "4096  131072 6291456"}},
		`"4096 131072": want 3`:                  {Sysctls: map[string]string{"net.ipv4.tcp_wmem": "4096 131072"}},
		`rdmaNamespaces: "none": want shared or`: {RDMANamespaces: "none"},
	} {
		if err := (Policy{Name: "p", HostPolicy: h}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %s", h, err, want)
		}
	}
	sizes := Policy{Name: "p", Links: []LinkPolicy{{Driver: "d", MaxReadRequest: ptr(3000)}}}
	if err := sizes.Validate(); err == nil || !strings.Contains(err.Error(), "want a power of two, 128-4096 bytes") {
		t.Errorf("3000 bytes: %v", err)
	}
	good := HostPolicy{Modules: hostsetup.Modules, RDMANamespaces: rdma.Exclusive, Sysctls: map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456", "vm.zone_reclaim_mode": "0"}}
	if err := (Policy{Name: "p", HostPolicy: good}).Validate(); err != nil {
		t.Error(err)
	}
}

// What the API server lets in is what an agent follows: both have the same names.
func TestTheSchemaListsThem(t *testing.T) {
	text, err := os.ReadFile("../../deploy/charts/plumbline/api/plumbline.dev_hostpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "self.all(k, k in ['kernel.")
	if !found {
		t.Fatal("no rule with the names of sysctls")
	}
	list, _, _ = strings.Cut("kernel."+list, "]")
	list = strings.Join(strings.Fields(strings.NewReplacer("'", " ", ",", " ").Replace(list)), " ")
	keys := []string{}
	for key := range allHostSysctls() {
		keys = append(keys, key)
		if !strings.Contains(" "+list+" ", " "+key+" ") {
			t.Errorf("the rule lacks %s: %s", key, list)
		}
	}
	if n := len(strings.Fields(list)); n != len(keys) {
		t.Errorf("the rule has %d names, the agent %d", n, len(keys))
	}
	for _, m := range hostsetup.Modules {
		if !strings.Contains(string(text), "- "+m+"\n") {
			t.Errorf("the list of modules lacks %s", m)
		}
	}
}

// The host's sysctls of a namespace of our own.
func TestHostSysctls(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	k := Live{Net: sysctl.New("/proc/sys", ns.Fd()), Asker: &hostsetup.Asker{}}
	rec := &Reconciler{File: filepath.Join(t.TempDir(), "p"), BootID: "b", Kernel: k}
	const field = fieldSysctl + "net.ipv4.tcp_rmem"
	was, err := k.Read(Link{}, field)
	if err != nil || len(strings.Fields(was)) != 3 || strings.Contains(was, "\t") {
		t.Fatalf("%q, %v", was, err)
	}
	const want = "4096 65536 1048576"
	p := []Policy{{Name: "a", HostPolicy: HostPolicy{Sysctls: map[string]string{"net.ipv4.tcp_rmem": want, "kernel.numa_balancing": "0"}}}}
	results, err := rec.Run(p, machine(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if own := r.Field == field; own && r.State != Applied || !own && r.State != Failed && r.State != Applied {
			t.Errorf("%+v", r)
		}
	}
	if now, err := k.Read(Link{}, field); now != want || err != nil {
		t.Errorf("%q, %v", now, err)
	}
	if _, err := rec.Run(nil, machine(t)); err != nil {
		t.Fatal(err)
	}
	if now, err := k.Read(Link{}, field); now != was || err != nil {
		t.Errorf("put back: %q, %v; want %q", now, err, was)
	}
}

// fixture is a host of files: configuration spaces of the machine's functions, and
// settings of a kernel.
func fixture(t *testing.T) hostsetup.Host {
	t.Helper()
	h := hostsetup.Host{Sys: t.TempDir(), ProcSys: t.TempDir()}
	write := func(file string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range machine(t).NICs {
		c := make([]byte, 4096)
		c[0x06], c[0x34], c[0x40] = 1<<4, 0x40, pciconfig.CapabilityPCIe
		binary.LittleEndian.PutUint16(c[0x48:], 2<<12)
		write(filepath.Join(h.Sys, pciconfig.File(*n.PCI)), c)
		dir := filepath.Dir(filepath.Join(h.Sys, pciconfig.File(*n.PCI)))
		write(filepath.Join(dir, "class"), []byte("0x020000\n"))
		write(filepath.Join(dir, "sriov_totalvfs"), []byte("8\n"))
		write(filepath.Join(dir, "sriov_numvfs"), []byte(map[bool]string{true: "3\n", false: "0\n"}[n.PCI.Bus == 2]))
	}
	write(filepath.Join(h.ProcSys, "kernel/numa_balancing"), []byte("1\n"))
	return h
}

// state is all that policies change there.
func state(t *testing.T, h hostsetup.Host) string {
	t.Helper()
	var all []string
	read := func(function, field string) {
		value, err := h.Read(function, field)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, function+" "+field+" "+value)
	}
	for _, n := range machine(t).NICs {
		read(n.PCI.String(), hostsetup.FieldMaxReadRequest)
		read(n.PCI.String(), hostsetup.FieldRelaxedOrdering)
		read(n.PCI.String(), hostsetup.FieldNumVFs)
	}
	read("", fieldSysctl+"kernel.numa_balancing")
	return strings.Join(all, "\n")
}

// killedBetween is what is left of a server that is killed between the two writes that it
// takes to change a number of virtual functions: none.
func killedBetween(t *testing.T, h hostsetup.Host, r hostsetup.Request) (killed bool) {
	t.Helper()
	for _, c := range r.Changes {
		if have, err := h.Read(c.Function, c.Field); c.Field == fieldNumVFs && err == nil && have != "0" && have != c.Value {
			file := filepath.Join(h.Sys, "bus/pci/devices", c.Function, "sriov_numvfs")
			if err := os.WriteFile(file, []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return true
		}
	}
	return false
}

// TestAskedForReturns changes policies at random, and has the agent, which asks, and
// plumbline-host-setup, which does it, take turns at random: either may be killed, and the
// second may have read a request long before it carries it out. Without policies the host
// is as it was.
func TestAskedForReturns(t *testing.T) { synctest.Test(t, askedForReturns) }

func askedForReturns(t *testing.T) {
	quiet := klog.NewContext(t.Context(), klog.Logger{})
	m := machine(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		h, dir := fixture(t), t.TempDir()
		was := state(t, h)
		agent := func() *Reconciler {
			asker, err := hostsetup.NewAsker(filepath.Join(dir, hostsetup.Folder), "b")
			if err != nil {
				t.Fatal(err)
			}
			return &Reconciler{File: filepath.Join(dir, "p"), BootID: "b", Kernel: Live{
				Host: h, Asker: asker, Held: func() ([]model.NIC, error) { return nil, nil }, Gate: &Gate{},
			}}
		}
		rec := agent()
		server := hostsetup.Server{Dir: filepath.Join(dir, hostsetup.Folder), BootID: "b", Host: h}
		look := func(p []Policy, killed bool) []Result {
			time.Sleep(time.Duration(r.IntN(10)) * time.Second)
			asker, gate := rec.Kernel.(Live).Asker, rec.Kernel.(Live).Gate
			if err := asker.Begin(); err != nil {
				t.Fatal(err)
			}
			gate.Begin(asker.Functions(hostsetup.FieldNumVFs))
			results, err := rec.Run(p, m)
			if err != nil {
				t.Fatal(err)
			}
			if killed {
				rec = agent()
				return results
			}
			if err := asker.End(); err != nil {
				t.Fatal(err)
			}
			gate.End(asker.Functions(hostsetup.FieldNumVFs), asker.Unsettled())
			return results
		}
		var read hostsetup.Request
		turn := func(p []Policy) {
			var err error
			switch r.IntN(6) {
			case 0:
				look(p, true)
			case 3:
				if read, err = server.Next(); err == nil && killedBetween(t, h, read) {
					read = hostsetup.Request{} // what it had read is gone with it
				}
			case 1:
				if read, err = server.Next(); err == nil && r.IntN(2) == 0 {
					err = server.CarryOut(quiet, read)
				}
			case 2:
				err = server.CarryOut(quiet, read)
			default:
				look(p, false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			p := []Policy{{Name: "a", HostPolicy: HostPolicy{Sysctls: map[string]string{"kernel.numa_balancing": fmt.Sprint(r.IntN(2))}}, Links: []LinkPolicy{{
				Driver: "mlx5_core", MaxReadRequest: ptr(128 << r.IntN(6)), RelaxedOrdering: ptr(r.IntN(2) == 0), NumVFs: ptr(r.IntN(10)),
			}}}}
			if r.IntN(3) == 0 {
				p = nil
			}
			for range r.IntN(6) {
				turn(p)
			}
		}
		for range r.IntN(6) {
			turn(nil)
		}
		// What was read last is carried out before anything newer: it is one process.
		for range 30 {
			if err := server.CarryOut(quiet, read); err != nil {
				t.Fatal(err)
			}
			var err error
			look(nil, false)
			if read, err = server.Next(); err != nil {
				t.Fatal(err)
			}
			if live := rec.Kernel.(Live); !live.Asker.Asking() && !live.Gate.Closed() {
				break
			}
		}
		if got := state(t, h); got != was || len(look(nil, false)) > 0 {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, got, was)
		}
		if left, err := rec.load(); err != nil || len(left.Entries) > 0 || rec.Kernel.(Live).Asker.Asking() {
			t.Fatalf("seed %d: record %+v, %v", seed, left, err)
		}
	}
}

// Who may not ask says what would be right; a link that is no PCI function has no register.
func TestWithoutSetup(t *testing.T) {
	h := fixture(t)
	rec := &Reconciler{File: filepath.Join(t.TempDir(), "p"), BootID: "b", Kernel: Live{Host: h, Asker: &hostsetup.Asker{}}}
	p := []Policy{{Name: "a", Links: []LinkPolicy{{RDMADevice: "mlx5_0", MaxReadRequest: ptr(4096)}}}}
	r, err := rec.Run(p, machine(t))
	if err != nil || len(r) != 1 || r[0].State != Failed || !strings.Contains(r[0].Reason, "hostSetup.enabled") || r[0].Before != "512" {
		t.Errorf("%+v, %v", r, err)
	}
	m := machine(t)
	m.NICs[0].PCI = nil
	if r, err = rec.Run(p, m); err != nil || r[0].State != Refused || r[0].Reason != "link eth0 is no PCI function" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.Remove(filepath.Join(h.Sys, pciconfig.File(*machine(t).NICs[0].PCI))); err != nil {
		t.Fatal(err)
	}
	if r, err = rec.Run(p, machine(t)); err != nil || r[0].State != Failed || errors.Is(err, os.ErrNotExist) || !strings.Contains(r[0].Reason, "no such file") {
		t.Errorf("%+v, %v", r, err)
	}
}
