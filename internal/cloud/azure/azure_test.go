// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
	"plumbline.dev/plumbline/internal/model"
)

// fixture is an answer made up after the documentation: a node of a scale set with
// its own interface, one with two addresses, one without, and one whose subnet is
// none.
func fixture(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/nd96isr-h100-v5.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// server answers as Azure's does: only to who sends the header, in the versions
// of the API that it knows.
func server(t *testing.T, body string, versions ...string) *Provider {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata") != "true" || r.URL.Path != "/metadata/instance" {
			http.Error(w, `{"error":"Bad request. Required metadata header not specified"}`, http.StatusForbidden)
			return
		}
		for _, v := range versions {
			if r.URL.Query().Get("api-version") == v {
				fmt.Fprint(w, body)
				return
			}
		}
		http.Error(w, `{"error":"Bad request. api-version is invalid or was not specified in the request.","newest-versions":["2021-02-01"]}`, http.StatusBadRequest)
	})
}

func serve(t *testing.T, handler http.HandlerFunc) *Provider {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	p, err := New(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(v string) model.Attribute { return model.TextAttribute(v) }

func TestLook(t *testing.T) {
	node := map[string]model.Attribute{
		attrVMSize: text("Standard_ND96isr_H100_v5"), attrPlacementGroupID: text("f67c14ab-e92c-408c-ae2d-da15866ec79a"),
		attrInterconnectGroupID:    text("c1f0ad4e-6b8e-4b39-8d6a-1f6b6f0c7a11"),
		attrInterconnectSubgroupID: text("c1f0ad4e-6b8e-4b39-8d6a-1f6b6f0c7a11-03"),
	}
	on := func(subnet string) map[string]model.Attribute {
		all := maps.Clone(node)
		all[attrSubnet] = text(subnet)
		return all
	}
	for _, test := range []struct {
		name    string
		device  cloud.Device
		want    map[string]model.Attribute
		config  string
		omitted string
	}{
		{
			"the first interface", cloud.Device{MAC: "00:0d:3a:f8:06:ec"}, on("10.224.0.0/16"),
			`{"routes":[{"destination":"10.224.0.0/16","scope":253,"table":20000},` +
				`{"destination":"0.0.0.0/0","gateway":"10.224.0.1","table":20000,"onlink":true}],` +
				`"rules":[{"source":"10.224.0.4/32","table":20000}]}`, "",
		},
		{
			"two addresses", cloud.Device{MAC: "00:0d:3a:f8:06:ed"}, on("10.9.255.0/24"),
			`{"routes":[{"destination":"10.9.255.0/24","scope":253,"table":20001},` +
				`{"destination":"0.0.0.0/0","gateway":"10.9.255.1","table":20001,"onlink":true}],` +
				`"rules":[{"source":"10.9.255.4/32","table":20001},{"source":"10.9.255.8/32","table":20001}]}`, "",
		},
		{"no address", cloud.Device{MAC: "00:0d:3a:f8:06:ee"}, on("10.9.254.0/24"), "", ""},
		{
			"a subnet that is none", cloud.Device{MAC: "00:0d:3a:f8:06:ef"}, on("10.9.253.7/24"), "",
			`interface with MAC "000D3AF806EF": subnet 10.9.253.7/24: want a network of IPv4`,
		},
		{"a virtual function of InfiniBand", cloud.Device{PCI: "0101:00:00.0", RDMA: "mlx5_0"}, node, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers, err := server(t, fixture(t), versions[0]).Lookup(t.Context(), []cloud.Device{test.device})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, answers[0].Attributes); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.config, string(answers[0].Config)); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
			if omitted := strings.Join(answers[0].Omitted, "; "); !strings.Contains(omitted, test.omitted) || test.omitted == "" && omitted != "" {
				t.Errorf("left out: %q, want %q", omitted, test.omitted)
			}
		})
	}
}

// A region that does not have the newest version answers in an older one.
func TestAnOlderVersion(t *testing.T) {
	answers, err := server(t, fixture(t), "2021-02-01").Lookup(t.Context(), []cloud.Device{{}})
	if err != nil || answers[0].Attributes[attrVMSize] == (model.Attribute{}) {
		t.Errorf("Lookup = %v, %v", answers, err)
	}
	if _, err := server(t, fixture(t)).Lookup(t.Context(), []cloud.Device{{}}); !imds.IsStatus(err, http.StatusBadRequest) {
		t.Errorf("of a server that knows no version: %v", err)
	}
}

func TestLookFails(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"garbage":                  {"<html>", "invalid character"},
		"another cloud's":          {`{"mac": "x"}`, "so it is not Azure's"},
		"the wrong type":           {`{"compute": [], "network": {}}`, "cannot unmarshal array"},
		"the wrong type of a part": {`{"compute": {}, "network": {"interface": [{"macAddress": 7}]}}`, "cannot unmarshal number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := server(t, test.body, versions[0]).Lookup(t.Context(), []cloud.Device{{}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Lookup = %v, want %q", err, test.want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	if err := server(t, fixture(t), versions[0]).Probe(t.Context()); err != nil {
		t.Errorf("of Azure: %v", err)
	}
	if err := serve(t, http.NotFound).Probe(t.Context()); err == nil {
		t.Error("another cloud's server was taken for Azure's")
	}
}

func TestInterfacesBeyondTheBound(t *testing.T) {
	i := instance{Compute: &compute{}, Network: &network{Interface: make([]networkInterface, maxInterfaces+1)}}
	last := &i.Network.Interface[maxInterfaces]
	if err := json.Unmarshal([]byte(`{"macAddress": "000D3AF806EC", "ipv4": {"subnet": [{"address": "10.0.0.0", "prefix": "24"}]}}`), last); err != nil {
		t.Fatal(err)
	}
	if got := i.answer(cloud.Device{MAC: "00:0d:3a:f8:06:ec"}); len(got.Attributes) > 0 {
		t.Errorf("interface %d is read: %v", maxInterfaces, got.Attributes)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(fixture(f)))
	f.Add([]byte(`{"compute": {}, "network": {"interface": [{"macAddress": "000D3AF806EC", "ipv4": {"subnet": [{}]}}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var i instance
		if json.Unmarshal(body, &i) != nil || i.Compute == nil || i.Network == nil {
			return
		}
		a := i.answer(cloud.Device{MAC: "00:0d:3a:f8:06:ec"})
		for name, v := range a.Attributes {
			if v.Text != nil && *v.Text == "" {
				t.Errorf("attribute %s is empty: unknown must be absent", name)
			}
		}
		if a.Config == nil {
			return
		}
		if c, err := v1alpha1.DecodeNetworkConfig(a.Config); err != nil || c.Validate() != nil {
			t.Errorf("parameters %s: %v", a.Config, err)
		}
	})
}
