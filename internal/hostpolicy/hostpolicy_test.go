// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/model"
)

func ptr[T any](v T) *T { return &v }

// fake is a kernel of plain values. It ends the process, as a kill does, before or
// after the write that dieAt counts down to.
type fake struct {
	values map[string]string
	dieAt  int
	after  bool
	fail   string
	// used says by function who uses one of its virtual ones.
	used map[string]string
	// taken are functions whose virtual ones went, or whose link was reset, all the same.
	taken []string
	// unread has no values to read.
	unread bool
}

type killed struct{}

func (*fake) Unsettled(Link, string) bool { return false }

func (f *fake) Used(l Link) (string, error) { return f.used[l.Function], nil }

func (f *fake) Read(l Link, field string) (string, error) {
	if f.unread {
		return "", errors.New("no such device")
	}
	if v, ok := f.values[l.Key+" "+field]; ok {
		return v, nil
	}
	if strings.HasPrefix(field, fieldAltName) {
		return absent, nil
	}
	return "0", nil
}

func (f *fake) Write(l Link, field, value string) error {
	if f.fail == field {
		return errors.New("device or resource busy")
	}
	if disturbs := field == fieldNumVFs || field == fieldMTU || field == fieldUp && value == "false"; disturbs && f.used[l.Function] != "" {
		f.taken = append(f.taken, l.Function)
	}
	if have, _ := f.Read(l, field); field == fieldNumVFs && have != "0" && value != "0" {
		f.write(l, field, "0")
	}
	f.write(l, field, value)
	return nil
}

func (f *fake) write(l Link, field, value string) {
	f.dieAt--
	if f.dieAt == 0 && !f.after {
		panic(killed{})
	}
	f.values[l.Key+" "+field] = value
	if f.dieAt == 0 {
		panic(killed{})
	}
}

func machine(t *testing.T, withheld ...int) *model.Machine {
	t.Helper()
	m := &model.Machine{Roots: []model.PCIRoot{{Name: "pci0000:00"}}}
	for i := range 3 {
		a, err := model.ParsePCIAddress(fmt.Sprintf("0000:0%d:00.0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		n := model.NIC{PCI: &a, Interface: &model.Interface{Name: fmt.Sprintf("eth%d", i), Index: i + 2}, RDMA: &model.RDMADevice{Name: fmt.Sprintf("mlx5_%d", i)}}
		for _, w := range withheld {
			if w == i {
				n.Withheld = ptr("carries the default route")
			}
		}
		m.NICs = append(m.NICs, n)
		m.Functions = append(m.Functions, model.PCIFunction{
			Address: a, Root: "pci0000:00", Driver: ptr("mlx5_core"), Class: model.PCIClassNetwork << 16, SRIOV: &model.SRIOV{TotalVFs: 8},
		})
	}
	return indexed(t, *m)
}

func indexed(t *testing.T, parts model.Machine) *model.Machine {
	t.Helper()
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPlan(t *testing.T) {
	byAddress := LinkPolicy{PCIAddress: "0000:01:00.0", MTU: ptr(9000)}
	for name, c := range map[string]struct {
		policies []Policy
		state    State
		reason   string
		steps    int
	}{
		"by address":     {[]Policy{{Name: "a", Links: []LinkPolicy{byAddress}}}, Planned, "", 1},
		"by RDMA device": {[]Policy{{Name: "a", Links: []LinkPolicy{{RDMADevice: "mlx5_1", Up: ptr(true)}}}}, Planned, "", 1},
		"by interface":   {[]Policy{{Name: "a", Links: []LinkPolicy{{Interface: "eth1", Up: ptr(true)}}}}, Planned, "", 1},
		"dry run":        {[]Policy{{Name: "a", DryRun: true, Links: []LinkPolicy{byAddress}}}, Planned, "", 0},
		"two that agree": {[]Policy{{Name: "a", Links: []LinkPolicy{byAddress}}, {Name: "b", Links: []LinkPolicy{byAddress}}}, Planned, "", 1},
		"one of two only tells": {
			[]Policy{{Name: "a", Links: []LinkPolicy{byAddress}}, {Name: "b", DryRun: true, Links: []LinkPolicy{{RDMADevice: "mlx5_0", MTU: ptr(1400)}}}},
			Planned, "", 1,
		},
		"two that do not": {
			[]Policy{{Name: "a", Links: []LinkPolicy{byAddress}}, {Name: "b", Links: []LinkPolicy{{RDMADevice: "mlx5_0", MTU: ptr(1500)}}}},
			Refused, "policies a and b want", 0,
		},
		"the node's link": {[]Policy{{Name: "a", Links: []LinkPolicy{{PCIAddress: "0000:03:00.0", Up: ptr(false)}}}}, Refused, "carries the default route", 0},
		"not there":       {[]Policy{{Name: "a", Links: []LinkPolicy{{PCIAddress: "0000:09:00.0", Up: ptr(true)}}}}, Pending, "no such link", 0},
		"a name of many":  {[]Policy{{Name: "a", Links: []LinkPolicy{{Driver: "mlx5_core", AltName: "rail"}}}}, Refused, "3 links match", 0},
		"a name twice": {
			[]Policy{{Name: "a", Links: []LinkPolicy{{PCIAddress: "0000:01:00.0", AltName: "rail"}, {PCIAddress: "0000:02:00.0", AltName: "rail"}}}},
			Refused, "several links", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := NewPlan(c.policies, machine(t, 2), Record{}, &fake{})
			if len(plan.Steps) != c.steps || len(plan.Results) == 0 {
				t.Fatalf("%d steps, %d results; want %d steps: %+v", len(plan.Steps), len(plan.Results), c.steps, plan)
			}
			for _, r := range plan.Results {
				if r.State != c.state || !strings.Contains(r.Reason, c.reason) {
					t.Errorf("%+v; want %s because %q", r, c.state, c.reason)
				}
			}
		})
	}
}

// TestRole has a GPU below the root of three NICs, a NIC below another one, and a bond.
func TestRole(t *testing.T) {
	m := machine(t)
	other := model.PCIRoot{Name: "pci0000:40"}
	far, err := model.ParsePCIAddress("0000:41:00.0")
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := model.ParsePCIAddress("0000:09:00.0")
	if err != nil {
		t.Fatal(err)
	}
	with := indexed(t, model.Machine{
		Roots: append(m.Roots, other),
		Functions: append(m.Functions, model.PCIFunction{Address: far, Root: other.Name, Class: model.PCIClassNetwork << 16},
			model.PCIFunction{Address: gpu, Root: "pci0000:00", Class: 0x030200}),
		GPUs: []model.GPU{{PCI: gpu}},
		NICs: append(m.NICs, model.NIC{PCI: &far, Interface: &model.Interface{Name: "far", Index: 9}},
			model.NIC{Interface: &model.Interface{Name: "bond0", Index: 10}}),
	})
	for role, want := range map[Role]string{RoleGPU: "eth0 eth1 eth2", RoleOther: "far"} {
		found, by, err := LinkPolicy{Role: role}.find(with)
		var names []string
		for _, l := range found {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want || by != "role "+string(role) {
			t.Errorf("%s: %s; want %s", by, got, want)
		}
	}
	if found, _, err := (LinkPolicy{Role: RoleGPU}).find(m); err != nil || len(found) > 0 {
		t.Errorf("a host without GPUs has links of role gpu: %v", found)
	}
}

func TestValidate(t *testing.T) {
	for want, l := range map[string]LinkPolicy{
		"has 0 of":                   {},
		"has 2 of":                   {PCIAddress: "0000:01:00.0", Driver: "mlx5_core"},
		"pciAddress":                 {PCIAddress: "../../etc"},
		"mtu: 67":                    {Driver: "d", MTU: ptr(67)},
		`altName: "a\nb"`:            {Driver: "d", AltName: "a\nb"},
		`altName: "a/b"`:             {Driver: "d", AltName: "a/b"},
		"want 1-127":                 {Driver: "d", AltName: strings.Repeat("a", 128)},
		"may not set it":             {Driver: "d", Sysctls: map[string]string{"ipv4/conf/../../forwarding": "1"}},
		"want a number, 0-8":         {Driver: "d", Sysctls: map[string]string{"ipv4/conf/arp_ignore": "9"}},
		`arp_notify"]: "1\n"`:        {Driver: "d", Sysctls: map[string]string{"ipv4/conf/arp_notify": "1\n"}},
		`rdmaDevice: "mlx5 0": want`: {RDMADevice: "mlx5 0"},
		`role: "storage": want gpu`:  {Role: "storage"},
	} {
		err := Policy{Name: "p", Links: []LinkPolicy{l}}.Validate()
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `\\`, `\`), want) {
			t.Errorf("%+v: %v; want %s", l, err, want)
		}
	}
}

// FuzzValidate holds what passes against what the kernel takes for a name
// (dev_valid_name, ALTIFNAMSIZ) and for a sysctl's path.
func FuzzValidate(f *testing.F) {
	f.Add("rail0", "ipv4/conf/arp_ignore", "2")
	f.Add("a\nb", "ipv4/conf/../all", "1\n")
	f.Add("..", "", "-1")
	f.Add(strings.Repeat("é", 64), "ipv4/conf/rp_filter\x00", "+1")
	f.Fuzz(func(t *testing.T, name, key, value string) {
		p := Policy{Name: "p", Links: []LinkPolicy{{Driver: "d", AltName: name, Sysctls: map[string]string{key: value}}}}
		if p.Validate() != nil {
			return
		}
		if len(name) > 127 || name == "." || name == ".." || strings.ContainsAny(name, "/:% \t\r\n\x00") {
			t.Errorf("name %q is let through", name)
		}
		if strings.Count(key, "/") != 2 || strings.Contains(key, "..") || len(value) != 1 || value < "0" || value > "8" {
			t.Errorf("sysctl %q = %q is let through", key, value)
		}
	})
}

func random(r *rand.Rand) []Policy {
	var list []Policy
	for i := range r.IntN(4) {
		l := LinkPolicy{MTU: ptr(1500 + r.IntN(3)), Up: ptr(r.IntN(2) == 0)}
		if r.IntN(2) == 0 {
			l.NumVFs = ptr(r.IntN(10))
		}
		switch r.IntN(3) {
		case 0:
			l.PCIAddress, l.AltName = fmt.Sprintf("0000:0%d:00.0", 1+r.IntN(3)), fmt.Sprintf("rail%d", r.IntN(2))
		case 1:
			l.RDMADevice, l.Sysctls = fmt.Sprintf("mlx5_%d", r.IntN(3)), map[string]string{"ipv4/conf/arp_ignore": fmt.Sprint(r.IntN(3))}
		default:
			l.Driver = "mlx5_core"
		}
		list = append(list, Policy{Name: fmt.Sprint("p", i), DryRun: r.IntN(5) == 0, Links: []LinkPolicy{l}})
	}
	return list
}

func before(m *model.Machine) map[string]string {
	v := map[string]string{}
	for _, n := range m.NICs {
		v[n.PCI.String()+" mtu"], v[n.PCI.String()+" up"] = "1500", "false"
	}
	v["0000:02:00.0 numVFs"] = "3"
	return v
}

// same compares values; a name that is absent is one that never was.
func same(a, b map[string]string) bool {
	clean := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(_, v string) bool { return v == absent || v == "0" })
		return m
	}
	return maps.Equal(clean(a), clean(b))
}

// TestReturns changes policies at random, kills the process before or after any write,
// and takes all policies away: the host is as it was.
func TestReturns(t *testing.T) {
	m := machine(t)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		k := &fake{values: before(m)}
		rec := &Reconciler{File: filepath.Join(t.TempDir(), "policies.json"), BootID: "b", Kernel: k}
		run := func(p []Policy) {
			defer func() {
				if v := recover(); v != nil && v != (killed{}) {
					panic(v)
				}
			}()
			if _, err := rec.Run(p, m); err != nil {
				t.Fatal(err)
			}
		}
		changed := false
		for range 5 {
			k.dieAt, k.after = r.IntN(6), r.IntN(2) == 0
			k.used = map[string]string{fmt.Sprintf("0000:0%d:00.0", 1+r.IntN(6)): "a claim holds it"}
			run(random(r))
			changed = changed || !same(k.values, before(m))
		}
		k.dieAt, k.after = 1+r.IntN(3), r.IntN(2) == 0
		run(nil)
		k.dieAt, k.used = 0, nil
		run(nil)
		if !same(k.values, before(m)) {
			t.Fatalf("seed %d: %v; want %v (changed: %v)", seed, k.values, before(m), changed)
		}
		if len(k.taken) > 0 {
			t.Fatalf("seed %d: taken away from who uses virtual functions of %q", seed, k.taken)
		}
		if left, err := rec.load(); err != nil || len(left.Entries) != 0 {
			t.Fatalf("seed %d: record %+v, %v; want none", seed, left, err)
		}
	}
}

func TestLeavesWhatOthersSet(t *testing.T) {
	m := machine(t)
	k := &fake{values: before(m)}
	rec := &Reconciler{File: filepath.Join(t.TempDir(), "p"), BootID: "b", Kernel: k}
	p := []Policy{{Name: "a", Links: []LinkPolicy{{RDMADevice: "mlx5_0", MTU: ptr(9000)}}}}
	if r, err := rec.Run(p, m); err != nil || r[0].State != Applied || r[0].Before != "1500" {
		t.Fatalf("%+v, %v", r, err)
	}
	k.values["0000:01:00.0 mtu"] = "4000"
	if _, err := rec.Run(nil, m); err != nil || k.values["0000:01:00.0 mtu"] != "4000" {
		t.Fatalf("mtu %s, %v; want 4000, which somebody else set", k.values["0000:01:00.0 mtu"], err)
	}
	k.fail = fieldMTU
	if r, err := rec.Run(p, m); err != nil || r[0].State != Failed || !strings.Contains(r[0].Reason, "busy") {
		t.Fatalf("%+v, %v; want failed", r, err)
	}
	k.fail, rec.BootID = "", "after a reboot"
	if r, err := rec.Run(p, m); err != nil || r[0].Before != "4000" || k.values["0000:01:00.0 mtu"] != "9000" {
		t.Fatalf("%+v, %v; want it applied again", r, err)
	}
}

func TestKernel(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "rail", ns, "peer")
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	k := Live{
		Conn: conn, Net: sysctl.New("/proc/sys", ns.Fd()), Asker: &hostsetup.Asker{}, Host: fixture(t),
		Held: func() ([]model.NIC, error) { return nil, nil },
	}
	l, err := conn.LinkByName("rail")
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t)
	m.NICs[0].Interface = &model.Interface{Name: "rail", Index: l.Index}
	link, _ := linkOf(&m.NICs[0])
	p := Policy{Name: "a", Links: []LinkPolicy{{
		PCIAddress: "0000:01:00.0", MTU: ptr(4000), Up: ptr(!l.Up), AltName: "fabric0",
		Sysctls: map[string]string{"ipv4/conf/arp_ignore": "2"},
	}}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	wants := p.Links[0].wants()
	was := map[string]string{}
	for field := range wants {
		if was[field], err = k.Read(link, field); err != nil {
			t.Fatal(err)
		}
	}
	rec := &Reconciler{File: filepath.Join(t.TempDir(), "p"), BootID: "b", Kernel: k}
	for _, step := range []struct {
		policies []Policy
		want     map[string]string
	}{{[]Policy{p}, wants}, {nil, was}} {
		if r, err := rec.Run(step.policies, m); err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		for field, want := range step.want {
			if have, err := k.Read(link, field); err != nil || have != want {
				t.Errorf("%s is %q, %v; want %q", field, have, err, want)
			}
		}
	}
}
