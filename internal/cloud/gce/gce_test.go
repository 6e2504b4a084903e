// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gce

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
	"plumbline.dev/plumbline/internal/model"
)

// Entries of a metadata server as documented, without the parameters.
const (
	pathInterfaces = "/computeMetadata/v1/instance/network-interfaces/"
	pathMachine    = "/computeMetadata/v1/instance/machine-type"
	pathHost       = "/computeMetadata/v1/instance/attributes/physical_host"
)

// interfaces is an answer as instances of three networks give it.
const interfaces = `[
 {"accessConfigs":[{"externalIp":"203.0.113.7","type":"ONE_TO_ONE_NAT"}],"dnsServers":["169.254.169.254"],"forwardedIps":[],
  "gateway":"10.128.0.1","ip":"10.128.0.70","ipAliases":["10.24.3.0/24"],"mac":"42:01:0a:80:00:46","mtu":1460,
  "network":"projects/628944397724/networks/default","subnetmask":"255.255.240.0","targetInstanceIps":[]},
 {"dnsServers":["169.254.169.254"],"forwardedIps":[],"gateway":"192.168.0.1","ip":"192.168.0.2","ipAliases":[],
  "mac":"42:01:C0:A8:00:02","mtu":8896,"network":"projects/628944397724/networks/tpu-net-1","subnetmask":"255.255.255.0"},
 {"mac":"42:01:c0:a8:01:02","mtu":8896,"network":"projects/tpu/networks/tpu-net-2"}]`

// server answers as GCE's does: by path, only to who sends the header, with the
// header.
func server(t *testing.T, entries map[string]string) *Provider {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
			return
		}
		text, ok := entries[r.URL.Path]
		if !ok || strings.HasSuffix(r.URL.Path, "/") && r.URL.Query().Get("recursive") != "true" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
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
	whole := map[string]string{
		pathInterfaces: interfaces,
		pathMachine:    "projects/628944397724/machineTypes/ct6e-standard-4t",
		pathHost:       "/aeb1ca3a2a5b/c9a4b1f5/7f3d\n",
	}
	without := func(path string) map[string]string {
		rest := map[string]string{}
		for p, text := range whole {
			if p != path {
				rest[p] = text
			}
		}
		return rest
	}
	node := map[string]model.Attribute{
		attrMachineType: text("ct6e-standard-4t"),
		attrBlock:       text("aeb1ca3a2a5b"), attrSubBlock: text("c9a4b1f5"), attrHost: text("7f3d"),
	}
	with := func(more map[string]model.Attribute) map[string]model.Attribute {
		all := map[string]model.Attribute{}
		for _, m := range []map[string]model.Attribute{node, more} {
			for name, v := range m {
				all[name] = v
			}
		}
		return all
	}
	project := model.NumberAttribute(628944397724)
	for _, test := range []struct {
		name    string
		entries map[string]string
		device  cloud.Device
		want    map[string]model.Attribute
		omitted string
	}{
		{
			"an interface with aliases", whole, cloud.Device{MAC: "42:01:0a:80:00:46"},
			with(map[string]model.Attribute{attrNetworkName: text("default"), attrNetworkProjectNumber: project, attrIPAliases: text("10.24.3.0/24")}), "",
		},
		{
			"another case of letters", whole, cloud.Device{MAC: "42:01:c0:a8:00:02"},
			with(map[string]model.Attribute{attrNetworkName: text("tpu-net-1"), attrNetworkProjectNumber: project}), "",
		},
		{
			"the permanent address before the present one", whole, cloud.Device{MAC: "42:01:0a:80:00:46", PermanentMAC: "42:01:c0:a8:00:02"},
			with(map[string]model.Attribute{attrNetworkName: text("tpu-net-1"), attrNetworkProjectNumber: project}), "",
		},
		{"an interface the cloud does not know", whole, cloud.Device{MAC: "02:00:00:00:00:01"}, node, ""},
		{"a device without an interface", whole, cloud.Device{Name: "pci-0000-91-00-0"}, node, ""},
		{
			"a network that is not as documented", whole, cloud.Device{MAC: "42:01:c0:a8:01:02"}, node,
			`network "projects/tpu/networks/tpu-net-2": want a project's number`,
		},
		{
			"no physical host", without(pathHost), cloud.Device{},
			map[string]model.Attribute{attrMachineType: text("ct6e-standard-4t")}, "",
		},
		{
			"no machine type", without(pathMachine), cloud.Device{},
			map[string]model.Attribute{attrBlock: text("aeb1ca3a2a5b"), attrSubBlock: text("c9a4b1f5"), attrHost: text("7f3d")}, "",
		},
		{
			"a physical host of two parts", map[string]string{pathInterfaces: "[]", pathHost: "/block/host"}, cloud.Device{},
			map[string]model.Attribute{}, `"/block/host": want /block/subblock/host`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers, err := server(t, test.entries).Lookup(t.Context(), []cloud.Device{test.device})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, answers[0].Attributes); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if omitted := strings.Join(answers[0].Omitted, "; "); !strings.Contains(omitted, test.omitted) || test.omitted == "" && omitted != "" {
				t.Errorf("left out: %q, want %q", omitted, test.omitted)
			}
		})
	}
}

func TestLookFails(t *testing.T) {
	google := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Metadata-Flavor", "Google")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"no interfaces", google(http.StatusNotFound, "gone"), "not defined"},
		{"garbage", google(http.StatusOK, "<html>"), "invalid character"},
		{"the wrong type", google(http.StatusOK, `{"mac": "42:01:0a:80:00:46"}`), "cannot unmarshal object"},
		{"the wrong type of a field", google(http.StatusOK, `[{"mac": 7}]`), "cannot unmarshal number"},
		{"too much", google(http.StatusOK, strings.Repeat("x", imds.MaxBody+1)), "too large"},
		{"refused", google(http.StatusForbidden, "no"), "403"},
		{"another cloud's server", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }, `not GCE's metadata server`},
		{
			"a redirect", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Metadata-Flavor", "Google")
				http.Redirect(w, r, "http://198.51.100.1/", http.StatusFound)
			}, "does not redirect",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := serve(t, test.handler).Lookup(t.Context(), []cloud.Device{{}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Lookup = %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestLookEndsWithItsContext(t *testing.T) {
	var asked atomic.Int32
	release := make(chan struct{})
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Lookup(ctx, []cloud.Device{{}}); err == nil {
		t.Error("a server that never answers gave an answer")
	}
	if asked.Load() == 0 {
		t.Error("nobody was asked")
	}
}

func TestLookRetriesWhatPasses(t *testing.T) {
	var failures atomic.Int32
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		if r.URL.Path == pathInterfaces {
			// What the server answers during maintenance.
			if failures.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, interfaces)
			return
		}
		http.NotFound(w, r)
	})
	answers, err := p.Lookup(t.Context(), []cloud.Device{{MAC: "42:01:0a:80:00:46"}})
	if err != nil || *answers[0].Attributes[attrNetworkName].Text != "default" {
		t.Errorf("Lookup = %v, %v", answers, err)
	}
}

func TestProbe(t *testing.T) {
	if err := server(t, map[string]string{pathMachine: "projects/1/machineTypes/n2"}).Probe(t.Context()); err != nil {
		t.Errorf("of GCE: %v", err)
	}
	if err := server(t, nil).Probe(t.Context()); err != nil {
		t.Errorf("of GCE without a machine type: %v", err)
	}
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	if err := other.Probe(t.Context()); err == nil {
		t.Error("another cloud's server was taken for GCE's")
	}
}

// The library takes its server from an environment variable; ours is a value.
func TestTheEnvironmentHasNoSay(t *testing.T) {
	t.Setenv("GCE_METADATA_HOST", "203.0.113.1:1")
	if err := server(t, map[string]string{pathMachine: "projects/1/machineTypes/n2"}).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func FuzzInstance(f *testing.F) {
	f.Add("/a/b/c", "42:01:0a:80:00:46", "projects/1/networks/default", "10.0.0.0/24")
	f.Add("", "", "projects//networks/", "")
	f.Fuzz(func(t *testing.T, host, mac, network, alias string) {
		i := instance{physicalHost: host, interfaces: []networkInterface{{MAC: mac, Network: network, IPAliases: []string{alias, alias}}}}
		for name, v := range i.answer(cloud.Device{MAC: mac}).Attributes {
			if v.Text != nil && *v.Text == "" {
				t.Errorf("attribute %s is empty: unknown must be absent", name)
			}
		}
	})
}
