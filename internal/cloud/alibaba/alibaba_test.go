// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
	"plumbline.dev/plumbline/internal/model"
)

// server answers as the hardened mode of Alibaba Cloud's does: only to who sends a
// token.
func server(t *testing.T, instanceType string) *Provider {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aliyun-ecs-metadata-token-ttl-seconds") != "":
			fmt.Fprint(w, "token")
		case r.Method != http.MethodGet || r.Header.Get("X-aliyun-ecs-metadata-token") != "token":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/latest/meta-data/instance/instance-type" && instanceType != "":
			fmt.Fprint(w, instanceType)
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
	devices := []cloud.Device{{MAC: "00:16:3e:00:00:01"}, {PCI: "0000:00:0b.0", RDMA: "erdma_0"}, {RDMA: "mlx5_0"}}
	of, yes := model.TextAttribute("ecs.gn8is-2x.8xlarge"), model.FlagAttribute(true)
	for instanceType, want := range map[string][]map[string]model.Attribute{
		"ecs.gn8is-2x.8xlarge": {{attrInstanceType: of}, {attrInstanceType: of, attrERDMA: yes}, {attrInstanceType: of}},
		"":                     {{}, {attrERDMA: yes}, {}},
	} {
		answers, err := server(t, instanceType).Lookup(t.Context(), devices)
		if err != nil {
			t.Fatal(err)
		}
		var got []map[string]model.Attribute
		for _, a := range answers {
			got = append(got, a.Attributes)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("instance type %q: attributes (-want +got):\n%s", instanceType, diff)
		}
	}
}

func TestProbe(t *testing.T) {
	if err := server(t, "").Probe(t.Context()); err != nil {
		t.Errorf("of Alibaba Cloud: %v", err)
	}
	other := serve(t, http.NotFound)
	if err := other.Probe(t.Context()); !imds.IsMissing(err) {
		t.Errorf("of another cloud: %v", err)
	}
	if _, err := other.Lookup(t.Context(), nil); !imds.IsMissing(err) {
		t.Errorf("of another cloud, Lookup: %v", err)
	}
}
