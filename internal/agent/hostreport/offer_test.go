// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// changed says whether there was something new to tell, and forgets it.
func changed(o *Offer) bool {
	select {
	case <-o.Changed():
		return true
	default:
		return false
	}
}

func TestChecksThatSlicesAreMadeOfAreThere(t *testing.T) {
	for _, name := range []string{gpuMemory, rdmaModules, rdmaDevices, rdmaPorts} {
		if !slices.ContainsFunc(doctor.Checks(), func(c doctor.Check) bool { return c.Name == name }) {
			t.Errorf("doctor has no check %s", name)
		}
	}
}

func gpuReport(v hosts.Verdict) hosts.Report {
	r := hosts.Report{Checks: []string{"rdma-modules", "dma-buf"}}
	if v != hosts.OK {
		r.Findings = []hosts.Finding{{Check: "dma-buf", Verdict: v, Severity: hosts.Functional}}
	}
	return r
}

func TestNICsSayWhetherTheyReachGPUs(t *testing.T) {
	rdma := nicAt("0000:91:00.0")
	rdma.RDMA = &model.RDMADevice{Name: "mlx5_0"}
	plain := nicAt("0000:92:00.0")
	soft := nicAt("0000:93:00.0")
	soft.RDMA = &model.RDMADevice{Name: "rxe0", Software: true}
	standIn := nicAt("0000:94:00.0")
	standIn.RDMA, standIn.Simulated = rdma.RDMA, ptr.To("stand-in")
	scan := &model.Machine{NICs: []model.NIC{rdma, plain, soft, standIn, {RDMA: &model.RDMADevice{Name: "siw0"}}}}
	for name, c := range map[string]struct {
		report hosts.Report
		want   *bool
	}{
		"no GPU":        {hosts.Report{Checks: []string{"rdma-modules"}}, nil},
		"nothing asked": {hosts.Report{}, nil},
		"right":         {gpuReport(hosts.OK), ptr.To(true)},
		"wrong":         {gpuReport(hosts.Wrong), ptr.To(false)},
		"cannot tell":   {gpuReport(hosts.Unknown), nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOffer(true)
			o.Looked(c.report, scan, nil)
			if changed(o) != (c.want != nil) {
				t.Errorf("changed: %t", c.want == nil)
			}
			var got []*bool
			for _, n := range o.Describe(scan).NICs {
				got = append(got, n.GPUDirect)
			}
			if diff := cmp.Diff([]*bool{c.want, nil, nil, nil, nil}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if scan.NICs[0].GPUDirect != nil {
				t.Error("the scan itself was changed")
			}
		})
	}
}

// What the first look finds is told at once: the slices of a restarted agent are those
// that there were. What changes later has to be seen twice.
func TestOfferIsChangedByTwoLooks(t *testing.T) {
	o := NewOffer(true)
	var got []bool
	for _, v := range []hosts.Verdict{hosts.OK, hosts.OK, hosts.Wrong, hosts.OK, hosts.Wrong, hosts.Wrong, hosts.Wrong, hosts.Unknown, hosts.Unknown} {
		o.Looked(gpuReport(v), &model.Machine{}, nil)
		got = append(got, changed(o))
	}
	want := []bool{true, false, false, false, false, true, false, false, true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// rdmaNIC is a NIC at a PCI address of a machine, with an interface where it has a state.
func rdmaNIC(address, linkLayer string, up bool, state string) model.NIC {
	n := nicAt(address)
	n.RDMA = &model.RDMADevice{Name: "mlx5_0", LinkLayer: &linkLayer}
	if state != "" {
		n.Interface = &model.Interface{Name: "eth0", Up: &up, State: &state}
	}
	return n
}

func machineOf(t *testing.T, n model.NIC, of *model.PCIAddress) *model.Machine {
	t.Helper()
	const root = "pci0000:91"
	parts := model.Machine{NICs: []model.NIC{n}, Roots: []model.PCIRoot{{Name: root, Path: "devices/" + root}}}
	parts.Functions = []model.PCIFunction{{Address: *n.PCI, Root: root, PhysicalFunction: of}}
	if of != nil {
		parts.Functions = append(parts.Functions, model.PCIFunction{Address: *of, Root: root})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func broken(check, subject string) hosts.Finding {
	return hosts.Finding{Check: check, Subject: subject, Verdict: hosts.Wrong, Severity: hosts.Functional}
}

func TestFindingsThatAreFaults(t *testing.T) {
	const at = "0000:91:00.0"
	ib, roce := rdmaNIC(at, "InfiniBand", false, ""), rdmaNIC(at, "Ethernet", true, "up")
	unknown := broken("rdma-ports", at)
	unknown.Verdict = hosts.Unknown
	second := ib
	second.Port = ptr.To("p1")
	physical := nicAt("0000:91:00.7").PCI
	for name, c := range map[string]struct {
		nic      model.NIC
		findings []hosts.Finding
		want     []model.FaultKind
	}{
		"nothing":                               {ib, nil, nil},
		"a port of InfiniBand":                  {ib, []hosts.Finding{broken("rdma-ports", at+" mlx5_0")}, []model.FaultKind{model.FaultRDMAPort}},
		"a port beside an interface that is up": {roce, []hosts.Finding{broken("rdma-ports", at+" eth0 mlx5_0")}, []model.FaultKind{model.FaultRDMAPort}},
		"an interface that nobody set up":       {rdmaNIC(at, "Ethernet", false, "down"), []hosts.Finding{broken("rdma-ports", at)}, nil},
		"an interface without a carrier":        {rdmaNIC(at, "Ethernet", true, "down"), []hosts.Finding{broken("rdma-ports", at)}, nil},
		"no interface":                          {rdmaNIC(at, "Ethernet", true, ""), []hosts.Finding{broken("rdma-ports", at)}, nil},
		"a link layer that is not known":        {rdmaNIC(at, "", true, "up"), []hosts.Finding{broken("rdma-ports", at)}, nil},
		"nobody can tell":                       {ib, []hosts.Finding{unknown}, nil},
		"another device's":                      {ib, []hosts.Finding{broken("rdma-ports", "0000:91:00.01 x"), broken("rdma-devices", "0000:92:00.0")}, nil},
		"a second port":                         {second, []hosts.Finding{broken("rdma-ports", at), broken("rdma-devices", at)}, nil},
		"no RDMA device":                        {nicAt(at), []hosts.Finding{broken("rdma-ports", at)}, nil},
		"no file":                               {roce, []hosts.Finding{broken("rdma-devices", at)}, []model.FaultKind{model.FaultRDMAFiles}},
		"no file on a host without modules":     {roce, []hosts.Finding{broken("rdma-modules", ""), broken("rdma-devices", at)}, nil},
		"both, one of them twice": {
			ib, []hosts.Finding{broken("rdma-ports", at), broken("rdma-devices", at), broken("rdma-devices", at)},
			[]model.FaultKind{model.FaultRDMAFiles, model.FaultRDMAPort},
		},
		"the host's, settings, and what is slow": {
			roce, []hosts.Finding{
				broken("", ""), broken("links", at), broken("arp", at), broken("pcie-link", at), broken("mtu", at), broken("pcie-errors", at), broken("port-errors", at), broken("gid", at), broken("rdma-limit", at),
				broken("max-read-request", at), broken("max-payload", at), broken("relaxed-ordering", at), broken("iommu", at), broken("numa", at), broken("acs", at), broken("ats", at),
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOffer(true)
			o.Looked(hosts.Report{Findings: c.findings}, machineOf(t, c.nic, nil), nil)
			var got []model.FaultKind
			for _, f := range o.AddFaults(nil)[slicecodec.NICName(c.nic)] {
				got = append(got, f.Kind)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			off := NewOffer(false)
			off.Looked(hosts.Report{Findings: c.findings}, machineOf(t, c.nic, nil), nil)
			if all := off.AddFaults(nil); len(all) > 0 {
				t.Errorf("switched off, it has %v", all)
			}
		})
	}
	t.Run("a virtual function of InfiniBand", func(t *testing.T) {
		m := machineOf(t, ib, physical)
		if all := faultsOf(hosts.Report{Findings: []hosts.Finding{broken("rdma-ports", at)}}, m); len(all) > 0 {
			t.Errorf("got %v, want none", all)
		}
	})
}

// A fault goes with its finding, seen twice; while a pod holds the NIC nobody looks, and
// it stays what it was. A new agent finds what the one before did by its first look.
func TestFaultsComeAndGoWithFindings(t *testing.T) {
	const at = "0000:91:00.0"
	n := rdmaNIC(at, "InfiniBand", false, "")
	bad := hosts.Report{Findings: []hosts.Finding{broken("rdma-ports", at)}}
	o, m, name := NewOffer(true), machineOf(t, n, nil), slicecodec.NICName(n)
	other := map[string][]model.Fault{name: {{Kind: model.FaultPCIe}}, "x": {{Kind: model.FaultGone}}}
	for i, c := range []struct {
		report    hosts.Report
		held      []model.NIC
		want, new bool
	}{
		{bad, nil, true, true}, // the first look of this agent
		{bad, nil, true, false},
		{hosts.Report{}, nil, true, false}, // seen once
		{bad, nil, true, false},
		{hosts.Report{}, []model.NIC{n}, true, false},
		{hosts.Report{}, []model.NIC{n}, true, false},
		{hosts.Report{}, nil, true, false},
		{hosts.Report{}, nil, false, true},
		{bad, []model.NIC{n}, false, false},
		{bad, []model.NIC{n}, false, false},
		{bad, nil, false, false},
		{bad, nil, true, true},
	} {
		o.Looked(c.report, m, c.held)
		all := o.AddFaults(other)
		if got := len(all[name]) == 2; got != c.want || len(all["x"]) != 1 {
			t.Errorf("step %d: faults %v, want that the port is among them: %t", i, all, c.want)
		}
		if got := changed(o); got != c.new {
			t.Errorf("step %d: said that it changed: %t", i, got)
		}
	}
	if len(other[name]) != 1 {
		t.Errorf("the faults of others were changed: %v", other)
	}
}
