// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const net = `device.attributes["dra.net"]`

func TestAnalyse(t *testing.T) {
	for _, test := range []struct {
		expression, driver string
		unguarded          []string
	}{
		{`device.driver == "dra.net"`, "dra.net", nil},
		{`"dra.net" == device.driver && true`, "dra.net", nil},
		{`device.driver == "dra.net" || true`, "", nil},
		{net + `.rdma`, "", []string{"dra.net/rdma"}},
		{net + `["rdma"]`, "", []string{"dra.net/rdma"}},
		{net + `.rdma && ` + net + `.ifName == "a"`, "", []string{"dra.net/ifName", "dra.net/rdma"}},
		{`"rdma" in ` + net + ` && ` + net + `.rdma`, "", nil},
		{net + `.rdma && "rdma" in ` + net, "", nil}, // && takes no offence at either side
		{`"rdma" in ` + net + ` && (` + net + `.rdma || ` + net + `.virtual)`, "", []string{"dra.net/virtual"}},
		{`"rdma" in ` + net + ` || ` + net + `.rdma`, "", []string{"dra.net/rdma"}},
		{`!("rdma" in ` + net + `) || ` + net + `.rdma`, "", nil},
		{`!(!("rdma" in ` + net + `)) && ` + net + `.rdma`, "", nil},
		{`("rdma" in ` + net + ` && "mtu" in ` + net + `) && ` + net + `.rdma && ` + net + `.mtu > 1`, "", nil},
		{`"rdma" in device.attributes["dra.cpu"] && ` + net + `.rdma`, "", []string{"dra.net/rdma"}},
		{`has(` + net + `.rdma) && ` + net + `.rdma`, "", nil},
		{`has(` + net + `.rdma) ? ` + net + `.rdma : ` + net + `.virtual`, "", []string{"dra.net/virtual"}},
		{`has(` + net + `.rdma) ? true : ` + net + `.rdma`, "", []string{"dra.net/rdma"}},
		{net + `.?rdma.orValue(false)`, "", nil},
		{net + `[?"rdma"].orValue(false)`, "", nil},
		{`cel.bind(a, ` + net + `, a.rdma && a.virtual)`, "", []string{"dra.net/rdma", "dra.net/virtual"}},
		{`cel.bind(a, ` + net + `, "rdma" in a && a.rdma)`, "", nil},
		{`device.attributes["gce.dra.net"].networkName.startsWith("tpu-net")`, "", []string{"gce.dra.net/networkName"}},
		{net + `.numaNode in [0, 1]`, "", []string{"dra.net/numaNode"}},
		{`[0, 1].exists(n, ` + net + `.numaNode == n)`, "", []string{"dra.net/numaNode"}},
		{`device.capacity["dra.cpu"].cpu.compareTo(quantity("4")) >= 0`, "", nil},
	} {
		a, err := Analyse(test.expression)
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		var unguarded []string
		for _, u := range a.Unguarded {
			unguarded = append(unguarded, u.String())
		}
		if diff := cmp.Diff(test.unguarded, unguarded); diff != "" || a.Driver != test.driver {
			t.Errorf("%s\n driver %q, want %q; unguarded (-want +got):\n%s", test.expression, a.Driver, test.driver, diff)
		}
	}
}

// What a device's attribute certainly is where the selector holds.
func TestEqual(t *testing.T) {
	const kind = `device.attributes["gpu.nvidia.com"].type`
	for expression, want := range map[string]string{
		`device.driver == "gpu.nvidia.com" && ` + kind + ` == "mig"`: "mig",
		`"mig" == ` + kind: "mig",
		`device.attributes["gpu.nvidia.com"]["type"] == 'gpu' && true`: "gpu",
		kind + ` == "mig" || true`:                                     "",
		kind + ` != "mig"`:                                             "",
		`!(` + kind + ` == "mig")`:                                     "",
		kind + `.startsWith("mig")`:                                    "",
	} {
		a, err := Analyse(expression)
		if err != nil || a.Equal[Attribute{"gpu.nvidia.com", "type"}] != want {
			t.Errorf("%s: %v, %v, want %q", expression, a.Equal, err, want)
		}
	}
}

func TestAnalyseRefuses(t *testing.T) {
	for _, expression := range []string{"", "device.", "1", "device.nothing", `device.driver = "x"`, `"a" == 1`} {
		if _, err := Analyse(expression); err == nil {
			t.Errorf("%q compiles", expression)
		}
	}
}

func FuzzAnalyse(f *testing.F) {
	f.Add(net + `.rdma && "rdma" in ` + net)
	f.Add(`cel.bind(a, ` + net + `, has(a.b) ? a.b : !a.?c.orValue(true))`)
	f.Add(`[` + net + `.?mtu.orValue(0), 1]`)
	f.Fuzz(func(t *testing.T, expression string) {
		for _, analyse := range []func(string) (Analysis, error){Analyse, AnalyseDerived} {
			a, err := analyse(expression)
			if err != nil {
				continue
			}
			read := fmt.Sprint(a.Reads)
			for _, u := range append(a.Unguarded, a.Given...) {
				if !strings.Contains(read, u.String()) {
					t.Errorf("%s: %s is unguarded or given, and not read", expression, u)
				}
			}
		}
	})
}

func TestAnalyseDerived(t *testing.T) {
	for expression, want := range map[string]string{
		`"a"`: "string", `1`: "int", `true`: "bool", `[1, 2]`: "list(int)", net + `.ifName`: "", `device.driver + "x"`: "string",
		net + `.?mtu.orValue(0) == 0 ? "a" : "b"`: "string",
	} {
		a, err := AnalyseDerived(expression)
		if err != nil || a.Type != want || a.MaxCost > 1000 {
			t.Errorf("%s is a %q of cost %d, want a %q: %v", expression, a.Type, a.MaxCost, want, err)
		}
	}
	for _, expression := range []string{"", "device.", "1.5", "{}", "device.attributes"} {
		if _, err := AnalyseDerived(expression); err == nil {
			t.Errorf("%q makes something to be compared", expression)
		}
	}
}

// What a device has of which a selector is true.
func TestGiven(t *testing.T) {
	for expression, want := range map[string]string{
		`"rdma" in ` + net:                            "[dra.net/rdma]",
		`has(` + net + `.rdma) && "mtu" in ` + net:    "[dra.net/mtu dra.net/rdma]",
		`"rdma" in ` + net + ` || "mtu" in ` + net:    "[]",
		`!("rdma" in ` + net + `)`:                    "[]",
		`!(!("rdma" in ` + net + `) || true == true)`: "[dra.net/rdma]",
	} {
		if a, err := Analyse(expression); err != nil || fmt.Sprint(a.Given) != want {
			t.Errorf("%s gives %v, want %s: %v", expression, a.Given, want, err)
		}
	}
}
