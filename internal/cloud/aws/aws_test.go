// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
	"plumbline.dev/plumbline/internal/model"
)

// p4d are the entries of an instance with two interfaces of a network, one of EFA
// alone and one that is not as documented. They are made up after the
// documentation.
func p4d(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/p4d.24xlarge.json")
	if err != nil {
		t.Fatal(err)
	}
	var entries map[string]string
	if err := json.Unmarshal(data, &entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// server answers as version 2 of the service does: only to who sends a token.
func server(t *testing.T, entries map[string]string) *Provider {
	t.Helper()
	const token = "AQAEALd7aGVsbG8="
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "" {
			fmt.Fprint(w, token)
			return
		}
		if r.Method != http.MethodGet || r.Header.Get("X-aws-ec2-metadata-token") != token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		text, ok := entries[r.URL.Path]
		if !ok {
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
	node := map[string]model.Attribute{
		attrInstanceType: text("p4d.24xlarge"), attrPlacementGroup: text("training-a"), attrPartitionNumber: model.NumberAttribute(3),
	}
	with := func(name string, v model.Attribute) map[string]model.Attribute {
		all := maps.Clone(node)
		all[name] = v
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
			"the first interface", cloud.Device{MAC: "0e:49:61:0f:c3:11"}, with(attrSubnetID, text("subnet-0aa11bb22cc33dd44")),
			`{"routes":[{"destination":"10.0.128.0/20","scope":253,"table":10000},` +
				`{"destination":"0.0.0.0/0","gateway":"10.0.128.1","table":10000,"onlink":true}],` +
				`"rules":[{"source":"10.0.130.7/32","table":10000}]}`, "",
		},
		{
			"one of another network card, with two addresses", cloud.Device{MAC: "0e:49:61:0f:c3:12"}, with(attrSubnetID, text("subnet-0aa11bb22cc33dd44")),
			`{"routes":[{"destination":"10.0.128.0/20","scope":253,"table":10201},` +
				`{"destination":"0.0.0.0/0","gateway":"10.0.128.1","table":10201,"onlink":true}],` +
				`"rules":[{"source":"10.0.130.8/32","table":10201},{"source":"10.0.130.9/32","table":10201}]}`, "",
		},
		{"one without addresses", cloud.Device{MAC: "0e:49:61:0f:c3:13"}, with(attrSubnetID, text("subnet-0ee55ff66aa77bb88")), "", ""},
		{
			"one that is not as documented", cloud.Device{MAC: "0e:49:61:0f:c3:14"}, with(attrSubnetID, text("subnet-0ee55ff66aa77bb88")), "",
			`device-number "one": want a number below 100`,
		},
		{"an EFA adapter", cloud.Device{PCI: "0000:10:1b.0", RDMA: "rdmap16s27"}, with(attrEFA, model.FlagAttribute(true)), "", ""},
		{"an interface the cloud does not know", cloud.Device{MAC: "02:00:00:00:00:01"}, node, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers, err := server(t, p4d(t)).Lookup(t.Context(), []cloud.Device{test.device})
			if err != nil || answers[0].Err != nil {
				t.Fatal(err, answers[0].Err)
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

func TestLookAtManyDevices(t *testing.T) {
	devices := []cloud.Device{{MAC: "0e:49:61:0f:c3:13"}, {RDMA: "rdmap16s27"}, {MAC: "0e:49:61:0f:c3:11"}}
	answers, err := server(t, p4d(t)).Lookup(t.Context(), devices)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range answers {
		v := a.Attributes[attrSubnetID]
		if v.Text == nil {
			got = append(got, "")
			continue
		}
		got = append(got, *v.Text)
	}
	if diff := cmp.Diff([]string{"subnet-0ee55ff66aa77bb88", "", "subnet-0aa11bb22cc33dd44"}, got); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
}

// An instance outside of any group, of one network card and with no interface that
// matches, says little.
func TestLookAtLittle(t *testing.T) {
	answers, err := server(t, nil).Lookup(t.Context(), []cloud.Device{{MAC: "0e:49:61:0f:c3:11"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(answers[0].Attributes) > 0 || answers[0].Config != nil {
		t.Errorf("got %v, %s", answers[0].Attributes, answers[0].Config)
	}
}

func TestLookFails(t *testing.T) {
	away := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if _, err := away.Lookup(t.Context(), []cloud.Device{{}}); !imds.IsStatus(err, http.StatusServiceUnavailable) {
		t.Errorf("of a server that is away: %v", err)
	}
	var once sync.Once
	expired := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		status := http.StatusUnauthorized
		once.Do(func() { status = http.StatusOK })
		w.WriteHeader(status)
		fmt.Fprint(w, "token")
	})
	if _, err := expired.Lookup(t.Context(), []cloud.Device{{}}); !imds.IsStatus(err, http.StatusUnauthorized) {
		t.Errorf("with a token that does not count: %v", err)
	}
}

// A service that says that it is switched off keeps no claim waiting, and the log
// says what is missing.
func TestLookAtAServiceSwitchedOff(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		off := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		answers, err := off.Lookup(t.Context(), []cloud.Device{{MAC: "0e:49:61:0f:c3:11"}, {RDMA: "rdmap16s27"}})
		if err != nil || len(answers) != 2 {
			t.Fatalf("status %d: Lookup = %v, %v", status, answers, err)
		}
		a := answers[0]
		if a.Err != nil || a.Config != nil || len(a.Attributes) > 0 || len(a.Omitted) != 1 ||
			!strings.Contains(a.Omitted[0], fmt.Sprintf("the metadata service is switched off: PUT /latest/api/token: HTTP status %d", status)) {
			t.Errorf("status %d: the interface's answer is %+v", status, a)
		}
		if efa := map[string]model.Attribute{attrEFA: model.FlagAttribute(true)}; len(answers[1].Omitted) > 0 || !cmp.Equal(efa, answers[1].Attributes) {
			t.Errorf("status %d: the EFA adapter's answer is %+v", status, answers[1])
		}
	}
}

// One interface whose entries cannot be read costs no other.
func TestLookFailsAtOneInterface(t *testing.T) {
	const mac = "0e:49:61:0f:c3:12"
	entries := p4d(t)
	delete(entries, "/latest/meta-data/network/interfaces/macs/"+mac+"/subnet-id")
	whole := server(t, entries)
	broken := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			fmt.Fprint(w, "token")
		case strings.HasSuffix(r.URL.Path, "/macs/"):
			fmt.Fprint(w, mac+"/\n")
		case strings.Contains(r.URL.Path, mac):
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	})
	devices := []cloud.Device{{MAC: mac}, {RDMA: "rdmap16s27"}}
	answers, err := broken.Lookup(t.Context(), devices)
	if err != nil || !imds.IsStatus(answers[0].Err, http.StatusServiceUnavailable) || answers[1].Err != nil {
		t.Errorf("Lookup = %v, %v", answers, err)
	}
	if answers, err = whole.Lookup(t.Context(), devices); err != nil || answers[0].Err != nil || answers[0].Config == nil {
		t.Errorf("without one entry, Lookup = %v, %v", answers, err)
	}
}

func TestProbe(t *testing.T) {
	if err := server(t, nil).Probe(t.Context()); err != nil {
		t.Errorf("of AWS: %v", err)
	}
	if err := serve(t, http.NotFound).Probe(t.Context()); err == nil {
		t.Error("another cloud's server was taken for AWS's")
	}
}

func TestTooManyInterfaces(t *testing.T) {
	var list strings.Builder
	for i := range maxInterfaces + 1 {
		fmt.Fprintf(&list, "0e:49:61:0f:%02x:%02x/\n", i>>8, i&0xff)
	}
	p := server(t, map[string]string{interfacesEntry: list.String()})
	token, err := p.client.Token(t.Context(), tokenHeader)
	if err != nil {
		t.Fatal(err)
	}
	i, err := session{client: p.client, token: token}.instance(t.Context())
	if err != nil || len(i.macs) != maxInterfaces {
		t.Errorf("%d interfaces, %v; want %d", len(i.macs), err, maxInterfaces)
	}
}

// The names of groups are those that the Neuron driver publishes; these two are in
// the slice of a trn1.32xlarge in DRANET's documentation.
func TestDeviceGroups(t *testing.T) {
	want := map[string]string{
		"resource.aws.com/devicegroup1_id":  "0000:10:19.0",
		"resource.aws.com/devicegroup4_id":  "178a9e264a26793e",
		"resource.aws.com/devicegroup8_id":  "aa86c05423d6e8cd",
		"resource.aws.com/devicegroup16_id": groupName(strings.Fields("0000:10:1a.0 0000:a0:1a.0 0000:20:19.0 0000:90:19.0 0000:20:1a.0 0000:90:1a.0 0000:10:19.0 0000:a0:19.0")),
	}
	if diff := cmp.Diff(want, deviceGroups("trn1.32xlarge", "0000:10:19.0")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	for _, other := range [][2]string{{"trn1.2xlarge", "0000:10:19.0"}, {"p4d.24xlarge", "0000:10:1b.0"}, {"trn1.32xlarge", "0000:10:1b.0"}, {"", ""}} {
		if got := deviceGroups(other[0], other[1]); got != nil {
			t.Errorf("%s, %s: %v", other[0], other[1], got)
		}
	}
}

// Each family has sixteen Neuron devices, and groups lie within each other.
func TestEveryFamilysGroups(t *testing.T) {
	for family, list := range efaBeside {
		beside := strings.Fields(list)
		if len(beside) != 16 {
			t.Errorf("%s: %d devices", family, len(beside))
		}
		for n := range groupSizes[:len(groupSizes)-1] {
			within := map[string]string{}
			for _, address := range beside {
				g := deviceGroups(family+".48xlarge", "0000:"+address+".0")
				small, large := g[fmt.Sprintf(attrDeviceGroup, groupSizes[n])], g[fmt.Sprintf(attrDeviceGroup, groupSizes[n+1])]
				if known := within[small]; small == "" || known != "" && known != large {
					t.Errorf("%s: group %q of %d lies in %q and in %q", family, small, groupSizes[n], known, large)
				}
				within[small] = large
			}
		}
	}
}

func TestNeuronInstance(t *testing.T) {
	got := Attributes("trn2.48xlarge", cloud.Device{PCI: "0000:c9:00.0", RDMA: "rdmap201s0"})
	if len(got) != 2+1+len(groupSizes) || *got["resource.aws.com/devicegroup1_id"].Text != "0000:c9:00.0" {
		t.Errorf("attributes of an EFA adapter: %v", got)
	}
	if got := Attributes("trn2.48xlarge", cloud.Device{PCI: "0000:c9:00.0"}); len(got) != 1 {
		t.Errorf("attributes of an interface: %v", got)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("p4d.24xlarge", "7", "10.0.128.0/20", "10.0.130.7 10.0.130.8", "1", "2")
	f.Add("trn1.32xlarge", "-1", "0.0.0.0/0", "::1", "", "99999999999")
	f.Fuzz(func(t *testing.T, instanceType, partition, subnet, addresses, device, card string) {
		i := instance{instanceType: instanceType, partition: partition}
		n := networkInterface{subnetID: subnet, subnet: subnet, addresses: addresses, deviceNumber: device, networkCard: card}
		a := i.answer(cloud.Device{PCI: "0000:10:19.0", RDMA: "rdmap16s25"}, &n)
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
