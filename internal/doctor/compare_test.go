// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/model"
)

// good is the profile of a host of a pool.
func good() hosts.HostProfile {
	return hosts.HostProfile{
		Kernel:   "6.8.0",
		Settings: map[string]string{"machine": "NVIDIA DGXH100", "cpu": "Xeon", "cpus": "224", "numa_balancing": "0", "cmdline:iommu": "pt"},
		Devices: []hosts.DeviceProfile{
			{Kind: "gpu", ID: "10de:2330", Model: "H100", Count: 8, Settings: map[string]string{"driver": "nvidia", "link": "32 GT/s x16"}},
			{Kind: "nic", ID: "15b3:1021", Model: "ConnectX-7", Count: 8, Settings: map[string]string{"driver": "mlx5_core", "mtu": "9000", "firmware": "28.39"}},
		},
	}
}

// but is a good profile with a change.
func but(change func(p *hosts.HostProfile)) hosts.HostProfile {
	p := good()
	change(&p)
	return p
}

func lines(findings []hosts.Finding) []string {
	var all []string
	for _, f := range findings {
		if f.Verdict != hosts.OK {
			all = append(all, fmt.Sprintf("%s %s %s [%s] %s; want %s", f.Check, f.Verdict, f.Severity, f.Subject, f.Found, f.Want))
		}
	}
	return all
}

func TestExpect(t *testing.T) {
	nics := func(change func(d *hosts.DeviceProfile)) func(p *hosts.HostProfile) {
		return func(p *hosts.HostProfile) { change(&p.Devices[1]) }
	}
	for name, tc := range map[string]struct {
		want, has hosts.HostProfile
		lines     []string
	}{
		"the same": {good(), good(), nil},
		"another kernel": {
			good(), but(func(p *hosts.HostProfile) { p.Kernel = "6.5" }),
			[]string{"expect wrong information [] kernel 6.5; want kernel 6.8.0"},
		},
		"a parameter of the kernel is missing": {
			good(), but(func(p *hosts.HostProfile) { delete(p.Settings, "cmdline:iommu") }),
			[]string{"expect wrong performance [] cmdline:iommu not set; want cmdline:iommu pt"},
		},
		"a parameter too much": {
			but(func(p *hosts.HostProfile) { p.Settings["cmdline:amd_iommu"] = "" }), but(func(p *hosts.HostProfile) { p.Settings["cmdline:amd_iommu"] = "on" }),
			[]string{"expect wrong performance [] cmdline:amd_iommu on; want cmdline:amd_iommu not set"},
		},
		"a parameter that the file does not name": {good(), but(func(p *hosts.HostProfile) { p.Settings["cmdline:isolcpus"] = "1" }), nil},
		"huge pages are missing on a node": {
			but(func(p *hosts.HostProfile) { p.Settings["hugepages-2048kB"] = "node0 8, node1 8" }), but(func(p *hosts.HostProfile) { p.Settings["hugepages-2048kB"] = "node0 8" }),
			[]string{"expect wrong information [] hugepages-2048kB node0 8; want hugepages-2048kB node0 8, node1 8"},
		},
		"what it is cannot be read": {
			good(), but(func(p *hosts.HostProfile) { delete(p.Settings, "machine") }),
			[]string{"expect unknown information [] machine is not known; want "},
		},
		"a device is missing": {
			good(), but(nics(func(d *hosts.DeviceProfile) { d.Count = 7 })),
			[]string{"expect wrong functional [nic 15b3:1021 ConnectX-7] count 7; want count 8"},
		},
		"all of a model are missing": {
			good(), but(func(p *hosts.HostProfile) { p.Devices = p.Devices[:1] }),
			[]string{"expect wrong functional [nic 15b3:1021 ConnectX-7] count 0; want count 8"},
		},
		"a device too much": {
			good(), but(nics(func(d *hosts.DeviceProfile) { d.Count = 9 })),
			[]string{"expect wrong functional [nic 15b3:1021 ConnectX-7] count 9; want count 8"},
		},
		"devices that the file does not name": {but(func(p *hosts.HostProfile) { p.Devices = p.Devices[:1] }), good(), nil},
		"one of eight is another": {
			good(), but(func(p *hosts.HostProfile) {
				p.Devices[1].Count = 7
				p.Devices = append(p.Devices, hosts.DeviceProfile{Kind: "nic", ID: "15b3:1021", Count: 1, Settings: map[string]string{"driver": "mlx5_core", "mtu": "1500"}})
			}),
			[]string{"expect wrong performance [nic 15b3:1021 ConnectX-7] mtu 9000 of 7, 1500 of 1; want mtu 9000"},
		},
		"pods have all NICs": {
			good(), but(nics(func(d *hosts.DeviceProfile) { delete(d.Settings, "mtu"); delete(d.Settings, "firmware") })),
			[]string{
				"expect unknown information [nic 15b3:1021 ConnectX-7] firmware is not known: pods may have the devices; want ",
				"expect unknown performance [nic 15b3:1021 ConnectX-7] mtu is not known: pods may have the devices; want ",
			},
		},
		"without a driver": {
			good(), but(nics(func(d *hosts.DeviceProfile) { delete(d.Settings, "driver") })),
			[]string{"expect wrong functional [nic 15b3:1021 ConnectX-7] driver none; want driver mlx5_core"},
		},
		"nothing is wanted": {hosts.HostProfile{}, good(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Expect(tc.want, tc.has)
			if diff := cmp.Diff(tc.lines, lines(got)); diff != "" {
				t.Error(diff)
			}
			for _, f := range got {
				if !strings.HasPrefix(f.Source, "/") || f.Found == "" || f.Verdict == hosts.Wrong && f.Fix == "" {
					t.Errorf("%+v: want a file, what is found, and a fix of what is wrong", f)
				}
			}
		})
	}
}

func TestCompare(t *testing.T) {
	smaller := but(func(p *hosts.HostProfile) { p.Devices[1].Settings["mtu"] = "1500" })
	held := but(func(p *hosts.HostProfile) { delete(p.Devices[1].Settings, "mtu") })
	newer := but(func(p *hosts.HostProfile) { p.Kernel = "6.9.0" })
	bare := hosts.HostProfile{Kernel: "6.8.0"}
	peers := func(all ...hosts.HostProfile) []Peer {
		var of []Peer
		for i, p := range all {
			of = append(of, Peer{Name: fmt.Sprintf("n%d", i), Profile: p})
		}
		slices.Reverse(of) // the order says nothing
		return of
	}
	for name, tc := range map[string]struct {
		peers     []Peer
		groups    []string
		odd       map[string][]string
		undecided []string
	}{
		"none":  {nil, nil, nil, nil},
		"alone": {peers(good()), []string{"n0"}, nil, nil},
		"alike": {peers(good(), good(), good()), []string{"n0 n1 n2"}, nil, nil},
		"one of five": {
			peers(good(), good(), smaller, good(), good()), []string{"n0 n1 n2 n3 n4"},
			map[string][]string{"n2": {"alike wrong performance [nic 15b3:1021 ConnectX-7] mtu: 4 of 5 nodes: 9000, this one: 1500; want mtu 9000"}}, nil,
		},
		"those of whose NICs nobody knows have no say": {
			peers(good(), good(), smaller, held, held), []string{"n0 n1 n2 n3 n4"},
			map[string][]string{"n2": {"alike wrong performance [nic 15b3:1021 ConnectX-7] mtu: 2 of 3 nodes: 9000, this one: 1500; want mtu 9000"}}, nil,
		},
		"two": {
			peers(good(), newer), []string{"n0 n1"}, nil, []string{"[] kernel: 6.8.0 n0; 6.9.0 n1"},
		},
		"half and half": {
			peers(good(), newer, good(), newer), []string{"n0 n1 n2 n3"}, nil, []string{"[] kernel: 6.8.0 n0 n2; 6.9.0 n1 n3"},
		},
		"most have no majority": {
			peers(good(), good(), newer, but(func(p *hosts.HostProfile) { p.Kernel = "6.10" })), []string{"n0 n1 n2 n3"}, nil,
			[]string{"[] kernel: 6.8.0 n0 n1; 6.10 n3; 6.9.0 n2"},
		},
		"one lacks a GPU, one all NICs": {
			peers(good(), good(), good(), but(func(p *hosts.HostProfile) { p.Devices[0].Count = 7 }), but(func(p *hosts.HostProfile) { p.Devices = p.Devices[:1] })),
			[]string{"n0 n1 n2 n3 n4"},
			map[string][]string{
				"n3": {"alike wrong functional [gpu 10de:2330 H100] count: 4 of 5 nodes: 8, this one: 7; want count 8"},
				"n4": {"alike wrong functional [nic 15b3:1021 ConnectX-7] count: 4 of 5 nodes: 8, this one: 0; want count 8"},
			}, nil,
		},
		"kinds": {
			append(peers(good(), good(), good(), bare, bare), Peer{"cloud", "a3", good()}, Peer{"other", "", but(func(p *hosts.HostProfile) { p.Devices[0].ID = "10de:2900" })}),
			[]string{"n0 n1 n2", "n3 n4", "cloud", "other"}, nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			groups, odd := Compare(tc.peers)
			var names, undecided []string
			for _, g := range groups {
				names = append(names, strings.Join(g.Hosts, " "))
				for _, u := range g.Undecided {
					var shares []string
					for _, s := range u.Values {
						shares = append(shares, s.Value+" "+strings.Join(s.Hosts, " "))
					}
					undecided = append(undecided, fmt.Sprintf("[%s] %s: %s", u.Subject, u.Field, strings.Join(shares, "; ")))
				}
			}
			got := map[string][]string{}
			for name, findings := range odd {
				got[name] = lines(findings)
			}
			if tc.odd == nil {
				tc.odd = map[string][]string{}
			}
			for what, diff := range map[string]string{
				"groups": cmp.Diff(tc.groups, names), "odd": cmp.Diff(tc.odd, got), "undecided": cmp.Diff(tc.undecided, undecided),
			} {
				if diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// TestEveryFieldOfAProfileHasAMeaning: what Profile writes, DecodeProfile takes, and a
// host is as its own profile expects.
func TestEveryFieldOfAProfileHasAMeaning(t *testing.T) {
	edits := map[string]string{"proc/cmdline": "iommu=pt quiet isolcpus=2-5 pci=realloc hugepages=8\n", "sys/module/nvidia/version": "570.86\n"}
	h := hostWith(t, func(m *model.Machine) { m.Functions[6].NUMANode = nil }, edits)
	has := Profile(h)
	text, err := EncodeProfile("a\x1b[2J\nb", has)
	if err != nil {
		t.Fatal(err)
	}
	if head, _, _ := strings.Cut(string(text), "apiVersion"); strings.Contains(head, "\x1b") || strings.Count(head, "\n") != 2 {
		t.Errorf("heading %q, want the name on its line, without what a terminal acts on", head)
	}
	want, err := DecodeProfile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Expect(want, has) {
		if f.Verdict != hosts.OK {
			t.Errorf("of itself: %+v", f)
		}
	}
	if pages := has.Settings["hugepages-2048kB"]; pages != "node0 512, node1 512" || has.Settings["hugepages-1048576kB"] != noPages {
		t.Errorf("settings %v, want huge pages of each node among them", has.Settings)
	}
	if _, known := want.Settings["cmdline:intel_iommu"]; !known {
		t.Errorf("settings %v, want what is not set among them", want.Settings)
	}
}

func TestProfileFilesThatAreRefused(t *testing.T) {
	const header = "apiVersion: plumbline.dev/v1alpha1\nkind: HostProfile\n"
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                 {"", `apiVersion "", kind "": want apiVersion plumbline.dev/v1alpha1, kind HostProfile`},
		"another kind":            {"apiVersion: v1\nkind: Pod\n", `apiVersion "v1", kind "Pod"`},
		"a list":                  {"- 1\n", "cannot unmarshal array"},
		"no YAML":                 {"a: b: c\n", "mapping values are not allowed"},
		"an unknown field":        {header + "profile: {kernl: \"6.8\"}\n", `unknown field "profile.kernl"`},
		"a field in other case":   {header + "profile: {Kernel: \"6.8\"}\n", `unknown field "profile.Kernel"`},
		"a field twice":           {header + "profile: {kernel: a, kernel: b}\n", `"kernel" already set`},
		"an unknown field below":  {header + "profile: {devices: [{kind: nic, id: \"15b3:1021\", count: 1, mtu: \"9000\"}]}\n", `unknown field "profile.devices[0].mtu"`},
		"an unknown setting":      {header + "profile: {settings: {numa_balacing: \"0\"}}\n", `profile.settings: unknown setting "numa_balacing": did you mean "numa_balancing"?`},
		"a parameter not watched": {header + "profile: {settings: {\"cmdline:quiet\": \"\"}}\n", `unknown setting "cmdline:quiet"`},
		"a kernel among settings": {header + "profile: {settings: {kernel: \"6\"}}\n", `unknown setting "kernel"`},
		"a device's setting":      {header + "profile: {devices: [{kind: nic, id: \"15b3:1021\", count: 1, settings: {firmwere: \"1\"}}]}\n", `profile.devices[0].settings: unknown setting "firmwere": did you mean "firmware"?`},
		"a number for a text":     {header + "profile: {settings: {numa_balancing: 0}}\n", "cannot unmarshal number into Go struct field"},
		"a kind of devices":       {header + "profile: {devices: [{kind: disk, id: \"15b3:1021\", count: 1}]}\n", `profile.devices[0].kind "disk": want gpu or nic`},
		"an ID":                   {header + "profile: {devices: [{kind: nic, id: \"15B3:1021\", count: 1}]}\n", `profile.devices[0].id "15B3:1021": want PCI vendor and device`},
		"a count":                 {header + "profile: {devices: [{kind: nic, id: \"15b3:1021\", count: 0}]}\n", "profile.devices[0].count 0: want 1 or more"},
		"two documents":           {header + "profile: {}\n---\n" + header + "profile: {}\n", "several YAML documents"},
		"too long":                {header + "#" + strings.Repeat("x", maxProfileFile), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeProfile(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if _, err := DecodeProfile(strings.NewReader("# a comment\n---\n" + header + "profile: {kernel: \"6.8\"}\n---\n# the end\n")); err != nil {
		t.Errorf("comments are no documents: %v", err)
	}
}

// Whoever writes a profile decides what is in it: a host is as its own, whatever that
// says.
func FuzzDecodeProfile(f *testing.F) {
	text, err := EncodeProfile("good", good())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("apiVersion: plumbline.dev/v1alpha1\nkind: HostProfile\nprofile: {settings: {machine: \"\"}, devices: [{kind: nic, id: \"15b3:1021\", count: 1, settings: {driver: \"\"}}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodeProfile(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, found := range Expect(p, p) {
			if found.Verdict != hosts.OK {
				t.Errorf("of itself: %+v", found)
			}
		}
		if groups, odd := Compare([]Peer{{Name: "a", Profile: p}, {Name: "b", Profile: p}}); len(groups) != 1 || len(odd) > 0 || len(groups[0].Undecided) > 0 {
			t.Errorf("beside itself: %+v, %+v", groups, odd)
		}
	})
}

// TestRecordedReports keeps reports of ready and broken hosts in testdata, which tests of
// others read: those of the command for one.
func TestRecordedReports(t *testing.T) {
	var list hosts.HostReportList
	sysfs := "sys/bus/pci/devices/"
	for _, r := range []struct {
		name    string
		machine func(*model.Machine)
		edits   map[string]string
	}{
		{name: "ready"},
		{name: "small-packets", machine: func(m *model.Machine) { *m.NICs[0].Interface.MTU = 1500 }},
		{name: "port-down", edits: map[string]string{
			"sys/class/infiniband/mlx5_0/ports/1/phys_state": "3: Disabled\n", "sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n",
			"sys/class/net/eth1/operstate": "down\n",
		}},
		{name: "not-root", edits: map[string]string{sysfs + nicA + "/config": unreadable, sysfs + nicB + "/config": unreadable}},
		{name: "another-kernel", edits: map[string]string{
			"proc/sys/kernel/osrelease": "6.5.0-1003\n", "boot/config-6.5.0-1003": "CONFIG_PCI_P2PDMA=y\n", "boot/config-6.8.0-1007": absent,
		}},
		{name: "much", machine: func(m *model.Machine) {
			m.Functions[5].Link.Width = 8
			m.Functions[2].Link.SpeedMTs = 8000
		}, edits: map[string]string{
			"sys/module/rdma_ucm/taint": absent, "dev/infiniband/uverbs1": absent, "run/nri/nri.sock": absent,
			"proc/sys/kernel/numa_balancing": "1\n", "sys/class/infiniband/mlx5_1/fw_ver": "28.41.1000\n",
			sysfs + nicA + "/config": config(read512, -1), sysfs + gpu + "/iommu_group/type": "DMA-FQ\n", sysfs + portOfGPU + "/config": config(0, 0x1d),
		}},
	} {
		h := hostWith(t, r.machine, r.edits)
		report := Report(Run(h))
		report.Profile = Profile(h)
		report.Changed = metav1.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
		list.Items = append(list.Items, hosts.HostReport{ObjectMeta: metav1.ObjectMeta{Name: r.name}, Report: report})
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, filepath.Join("testdata", "reports.yaml"), string(text))
}
