// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/webhook"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

const mac = "00:16:3e:00:00:07"

// node is the agent's side of a node: its real client of webhooks, and the profiles of its
// claims on disk.
type node struct {
	*cloud.Profiles
	server *server
}

// newNode runs the server as a node does, on a socket, with the profiles of README.md.
func newNode(t *testing.T, dir string) node {
	t.Helper()
	text, err := os.ReadFile("profiles.json")
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := readProfiles(text)
	if err != nil {
		t.Fatal(err)
	}
	metadata := httptest.NewServer(http.HandlerFunc(fakeMetadata))
	t.Cleanup(metadata.Close)
	s := &server{profiles: profiles, secondary: secondaryAddresses(metadata.URL), hostAddresses: func(name string) ([]netip.Prefix, error) {
		if name != "eth1" {
			return nil, fmt.Errorf("interface %q: no such network interface", name)
		}
		return []netip.Prefix{netip.MustParsePrefix("192.168.7.1/24"), netip.MustParsePrefix("10.224.3.7/12")}, nil
	}}
	if s.given, err = openGiven(filepath.Join(dir, "given.json")); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "w.sock"))
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: s.handler(), ReadHeaderTimeout: requestLimit}
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { _ = web.Close() })
	client, err := webhook.New("unix://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	hardware := mac
	m := &model.Machine{NICs: []model.NIC{
		{Interface: &model.Interface{Name: "eth1", MAC: &hardware}},
		{Interface: &model.Interface{Name: "eth2", MAC: &hardware}},
	}}
	return node{server: s, Profiles: &cloud.Profiles{
		Provider: client, Dir: filepath.Join(dir, "profiles"), Poll: cloud.DefaultPollConfig(), Machine: func() *model.Machine { return m },
		Lock: func(context.Context, types.UID) (func(), error) { return func() {}, nil },
	}}
}

// fakeMetadata is the metadata service of an ECS instance with one NIC.
func fakeMetadata(w http.ResponseWriter, r *http.Request) {
	const macs = "/latest/meta-data/network/interfaces/macs/" + mac + "/"
	entries := map[string]string{
		"/latest/api/token":         "token",
		macs + "primary-ip-address": "172.16.9.4",
		macs + "private-ipv4s":      `["172.16.9.4","172.16.9.5","172.16.9.6"]`,
		macs + "vswitch-cidr-block": "172.16.9.0/24\n",
	}
	text, there := entries[r.URL.Path]
	if !there || r.Method == http.MethodGet && r.Header.Get("X-aliyun-ecs-metadata-token") != "token" {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, text)
}

// claimOf is a claim with so many shares of a NIC.
func claimOf(uid types.UID, device, profile string, shares int) driver.Claim {
	c := driver.Claim{ClaimRef: driver.ClaimRef{UID: uid, Namespace: "default", Name: string(uid)}, Object: &resourceapi.ResourceClaim{}}
	c.Object.UID = uid
	for i := range shares {
		share := types.UID(fmt.Sprintf("share-%d", i))
		c.Devices = append(c.Devices, driver.Allocation{Request: "nic", Device: device, ShareID: &share, Configs: []driver.Config{
			{Source: "claim", Raw: fmt.Appendf(nil, `{"profile": %q}`, profile)},
		}})
	}
	return c
}

// resolved are the profile's layers of a claim.
func (n node) resolved(t *testing.T, c driver.Claim) []string {
	t.Helper()
	got, err := n.Resolve(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var layers []string
	for _, d := range got.Devices {
		if d.Configs[0].Source != cloud.SourceProfile {
			t.Fatalf("first layer %+v, want the profile's", d.Configs[0])
		}
		var b bytes.Buffer
		if err := json.Compact(&b, d.Configs[0].Raw); err != nil {
			t.Fatal(err)
		}
		layers = append(layers, b.String())
	}
	return layers
}

func layer(address string) string {
	return fmt.Sprintf(`{"interface":{"type":"ipvlan","addresses":[%q]}}`, address)
}

func TestAddressesFollowFromTheHosts(t *testing.T) {
	for _, tt := range []struct {
		profile   string
		addresses []string
	}{
		{"oracle/rail", []string{"10.128.12.28/10", "10.128.12.29/10", "10.128.12.30/10", "10.128.12.31/10"}},
		{"alibaba/secondary", []string{"172.16.9.5/24", "172.16.9.6/24"}},
	} {
		t.Run(tt.profile, func(t *testing.T) {
			dir := t.TempDir()
			n := newNode(t, dir)
			last := len(tt.addresses) - 1
			first := claimOf("first", "eth1", tt.profile, last)
			for range 2 { // the second time as after a restart of both
				for i, got := range n.resolved(t, first) {
					if want := layer(tt.addresses[i]); got != want {
						t.Errorf("share %d: %s, want %s", i, got, want)
					}
				}
				n = newNode(t, dir)
			}
			if got := n.resolved(t, claimOf("second", "eth1", tt.profile, 1))[0]; got != layer(tt.addresses[last]) {
				t.Errorf("another claim: %s, want what is left, %s", got, tt.addresses[last])
			}
			third := claimOf("third", "eth1", tt.profile, 1)
			if _, err := n.Resolve(t.Context(), third); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("interface eth1: all %d addresses are in use", last+1)) {
				t.Errorf("one too many: %v", err)
			}
			if err := n.Release(t.Context(), first.ClaimRef); err != nil {
				t.Fatal(err)
			}
			// The claim's end is said once more before it is allocated again.
			n.resolved(t, first)
			if err := n.Release(t.Context(), first.ClaimRef); err != nil {
				t.Fatal(err)
			}
			for i := range last {
				q := cloud.ReleaseRequest{ClaimUID: "first", ShareID: types.UID(fmt.Sprintf("share-%d", i))}
				for range 2 { // the agent may say it twice
					if err := n.Provider.Release(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := n.resolved(t, third)[0]; got != layer(tt.addresses[0]) {
				t.Errorf("after a claim's end: %s, want %s", got, tt.addresses[0])
			}
		})
	}
}

func TestProfilesAreRefused(t *testing.T) {
	n := newNode(t, t.TempDir())
	whole := claimOf("whole", "eth1", "oracle/rail", 1)
	whole.Devices[0].ShareID = nil
	for _, tt := range []struct {
		claim driver.Claim
		want  string
	}{
		{claimOf("a", "eth1", "acme.com/other", 1), `profile \"acme.com/other\" is not one of this server's`},
		{claimOf("b", "eth2", "oracle/rail", 1), `no such network interface`},
		{whole, "want a share of a NIC"},
	} {
		if _, err := n.Resolve(t.Context(), tt.claim); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("claim %s: %v, want %q", tt.claim.Name, err, tt.want)
		}
	}
	if len(n.server.given.by) > 0 {
		t.Errorf("refused claims have %v", n.server.given.by)
	}
}

func TestReadProfiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": {"hosts": "10.224.0.0/12"}}`:                          `profile "a": pods: invalid Prefix: want an IPv4 network`,
		`{"a": {"hosts": "10.224.0.1/12", "pods": "10.128.0.0/10"}}`: `profile "a": hosts: 10.224.0.1/12: want an IPv4 network`,
		`{"a": {"hosts": "fd00::/64", "pods": "10.128.0.0/10"}}`:     `hosts: fd00::/64: want an IPv4 network`,
		`{"a": {"hosts": "10.224.0.0/12", "pods": "172.0.0.0/12"}}`:  `pods: 172.0.0.0/12: want a network wider than hosts`,
		`{"a": {"hosts": "10.224.0.7/32", "pods": "128.0.0.0/1"}}`:   `pods: 128.0.0.0/1: want a network wider than hosts`,
		`{"a": {"hosts": "10.224.0.0/12", "pods": "10.192.0.0/10"}}`: `pods: 10.192.0.0/10: want a network wider than hosts, 10.224.0.0/12, by 1 to 8 bits, and one beside it`,
		`{"a": {"secondary": true, "hosts": "10.224.0.0/12"}}`:       `secondary: cannot be set beside hosts and pods`,
		`{"a": {"secondary": true, "mode": "l3"}}`:                   `unknown field "mode"`,
	} {
		if _, err := readProfiles([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSecondaryOf(t *testing.T) {
	for _, tt := range []struct{ all, network, want string }{
		{`["172.16.9.4", "10.0.0.1"]`, "172.16.9.0/24", "10.0.0.1: want addresses of 172.16.9.0/24"},
		{`172.16.9.5`, "172.16.9.0/24", "read private-ipv4s"},
		{`["172.16.9.5"]`, "<html>", "<html>"},
	} {
		if got, err := secondaryOf("172.16.9.4", tt.all, tt.network); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in %s: %v, %v; want %q", tt.all, tt.network, got, err, tt.want)
		}
	}
}

// A file of which something is lost must not lead to addresses being given twice.
func TestGivenIsReadWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "given.json")
	if err := os.WriteFile(path, []byte(`{"a/b": "10.0.0.1/2`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openGiven(path); err == nil || !strings.Contains(err.Error(), "read "+path) {
		t.Errorf("half a file: %v", err)
	}
}
