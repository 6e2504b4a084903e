// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/inventory/filter"
	"plumbline.dev/plumbline/internal/model"
)

// originals is the filter that DRANET has unless it is told another one.
const originals = `!("dra.net/type" in attributes) || attributes["dra.net/type"].StringValue  != "veth"`

func machine(t *testing.T) *model.Machine {
	t.Helper()
	veth, speed, reaches := "veth", 400000, true
	m, err := model.New(model.Machine{NICs: []model.NIC{
		{Interface: &model.Interface{Name: "eth0", SpeedMbps: &speed}, RDMA: &model.RDMADevice{Name: "mlx5_0"}, GPUDirect: &reaches,
			Attributes: map[string]model.Attribute{"gce.dra.net/networkName": model.TextAttribute("gpu-net-1")}},
		{Interface: &model.Interface{Name: "veth0", Kind: &veth, Virtual: true}},
		{RDMA: &model.RDMADevice{Name: "ib0"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// offered names what is not withheld.
func offered(m *model.Machine) string {
	var names []string
	for _, n := range m.NICs {
		if n.Withheld == nil {
			names = append(names, n.String())
		}
	}
	return strings.Join(names, " ")
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct{ name, expression, want string }{
		{"none", "", "eth0 ib0 veth0"},
		{"the original's", originals, "eth0 ib0"},
		{"true", "true", "eth0 ib0 veth0"},
		{"false", "false", ""},
		{"a boolean", `attributes["dra.net/rdma"].BoolValue`, "eth0 ib0"},
		{"a number", `"dra.net/linkSpeed" in attributes && attributes["dra.net/linkSpeed"].IntValue >= 100000`, "eth0"},
		{"the cloud's", `"gce.dra.net/networkName" in attributes && attributes["gce.dra.net/networkName"].StringValue.startsWith("gpu-")`, "eth0"},
		{"the host checks'", `"plumbline.dev/gpuDirect" in attributes && attributes["plumbline.dev/gpuDirect"].BoolValue`, "eth0"},
		{"what it cannot judge", `attributes["dra.net/ifName"].StringValue != "nobody"`, "eth0 veth0"},
		{"a field of another type", `attributes["dra.net/rdma"].StringValue != "x"`, "eth0 ib0 veth0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := filter.New(tt.expression)
			if err != nil {
				t.Fatal(err)
			}
			m := machine(t)
			if diff := cmp.Diff(tt.want, offered(f.Apply(m, nil))); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if offered(m) != "eth0 ib0 veth0" {
				t.Error("the machine itself was changed")
			}
		})
	}
}

func TestFilterKeepsWhatIsHeld(t *testing.T) {
	f, err := filter.New("false")
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t)
	if got := offered(f.Apply(m, m.NICs[:1])); got != "eth0" {
		t.Errorf("offered %q, want eth0, which a pod holds", got)
	}
}

func TestFilterSaysWhy(t *testing.T) {
	f, err := filter.New(`attributes["dra.net/ifName"].StringValue == "eth0"`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range f.Apply(machine(t), nil).NICs {
		if n.Withheld != nil {
			got = append(got, n.String()+" "+*n.Withheld)
		}
	}
	want := []string{"ib0 is left out: --filter cannot judge it: no such key: dra.net/ifName", "veth0 is left out by --filter"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestWrongFilters(t *testing.T) {
	for expression, want := range map[string]string{
		`attributes["x"].StringValue ==`: "want a CEL expression over attributes",
		`attribute["x"]`:                 "undeclared reference",
		`"text"`:                         "true or false",
		`attributes["x"].Nonsense`:       "undefined field",
	} {
		if _, err := filter.New(expression); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), expression[:5]) {
			t.Errorf("%s: error %v, want one that says %q and the expression", expression, err, want)
		}
	}
}

func TestInterfaces(t *testing.T) {
	macvlan := "macvlan"
	for _, tt := range []struct {
		list string
		want string
	}{
		{"", ""},
		{"nic0", "nic0"},
		{"nic*", "nic0 nic1"},
		{"kind:macvlan", "mv0"},
		{"nic1 kind:macvlan", "nic1 mv0"},
		{"kind:veth", ""},
		{"*", "nic0 nic1 mv0"},
	} {
		allow, err := filter.Interfaces(strings.Fields(tt.list))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range []model.Interface{{Name: "nic0"}, {Name: "nic1"}, {Name: "mv0", Kind: &macvlan}} {
			if allow != nil && allow(i) {
				got = append(got, i.Name)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.list, diff)
		}
	}
	for _, entry := range []string{"", "kind:", "nic[", "kind:[a"} {
		if _, err := filter.Interfaces([]string{entry}); err == nil || !strings.Contains(err.Error(), "kind:KIND") {
			t.Errorf("%q: error %v", entry, err)
		}
	}
}
