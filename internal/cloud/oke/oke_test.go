// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package oke

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/model"
)

// fixture is an answer made up after the documentation, of a shape with a fabric
// of GPUs.
func fixture(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/gb200.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// server answers as Oracle's does: only to who sends the header. An empty body is
// an entry that is not there.
func server(t *testing.T, body string) *Provider {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer Oracle":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/opc/v2/instance/shape":
			fmt.Fprint(w, "BM.GPU.GB200.4")
		case r.URL.Path == "/opc/v2/host/" && body != "":
			fmt.Fprint(w, body)
		default:
			http.NotFound(w, r)
		}
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

func TestLook(t *testing.T) {
	const rack = "4d1f0e7a9b3c5d6e8f70112233445566778899aabbccddeeff00112233445566"
	for _, test := range []struct {
		name, body string
		want       map[string]string
		omitted    string
	}{
		{"a GPU shape", fixture(t), map[string]string{
			attrRackID: rack, attrNetworkBlockID: "anuwcljtqnetw0rk", attrLocalBlockID: "anuwcljtql0cal",
			attrHPCIslandID:       "anuwcljtq1sland3hpcisland4networkblock5localblock6rackab7fabricd",
			attrGPUMemoryFabricID: "anuwcljtqexample3hpcisland4networkblock5localblock6rackab7fabric",
		}, ""},
		{"a shape without RDMA", `{"rackId": "` + rack + `", "rdmaTopologyData": null}`, map[string]string{attrRackID: rack}, ""},
		{"no host", "", map[string]string{}, ""},
		{
			"an identifier that is none", `{"rdmaTopologyData": {"customerHPCIslandId": "island-7", "customerLocalBlock": "ocid1.b.oc1.iad.x"}}`,
			map[string]string{attrLocalBlockID: "x"}, `rdmaTopologyData.customerHPCIslandId: "island-7": want an OCID`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers, err := server(t, test.body).Lookup(t.Context(), []cloud.Device{{MAC: "02:00:00:00:00:01"}, {RDMA: "mlx5_0"}})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]model.Attribute{}
			for name, value := range test.want {
				want[name] = model.TextAttribute(value)
			}
			for _, a := range answers {
				if diff := cmp.Diff(want, a.Attributes); diff != "" {
					t.Errorf("attributes (-want +got):\n%s", diff)
				}
				if omitted := strings.Join(a.Omitted, "; "); !strings.Contains(omitted, test.omitted) || test.omitted == "" && omitted != "" {
					t.Errorf("left out: %q, want %q", omitted, test.omitted)
				}
			}
		})
	}
}

func TestLookFails(t *testing.T) {
	for body, want := range map[string]string{"<html>": "invalid character", `{"rackId": 7}`: "cannot unmarshal number"} {
		if _, err := server(t, body).Lookup(t.Context(), []cloud.Device{{}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestProbe(t *testing.T) {
	if err := server(t, "").Probe(t.Context()); err != nil {
		t.Errorf("of Oracle: %v", err)
	}
	if err := serve(t, http.NotFound).Probe(t.Context()); err == nil {
		t.Error("another cloud's server was taken for Oracle's")
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(fixture(f)))
	f.Add([]byte(`{"rdmaTopologyData": {"customerHPCIslandId": "ocid1....", "customerLocalBlock": "ocid"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var h host
		if json.Unmarshal(body, &h) != nil {
			return
		}
		for name, v := range h.answer().Attributes {
			if *v.Text == "" {
				t.Errorf("attribute %s is empty: unknown must be absent", name)
			}
		}
	})
}
