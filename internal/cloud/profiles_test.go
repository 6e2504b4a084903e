// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/model"
)

// fakePool gives each claim's device an address of its own, and notes what is
// asked of it.
type fakePool struct {
	mu     sync.Mutex
	fail   error
	given  int
	log    []string
	answer func(n int) string
}

func (f *fakePool) Profile(_ context.Context, r ProfileRequest) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	f.given++
	f.log = append(f.log, fmt.Sprintf("profile %s of %s for %s", *r.Config.Profile, r.Device.Name, r.Claim.UID))
	if f.answer != nil {
		return []byte(f.answer(f.given)), nil
	}
	return fmt.Appendf(nil, `{"interface": {"addresses": ["10.0.0.%d/24"]}}`, f.given), nil
}

func (f *fakePool) Release(_ context.Context, r ReleaseRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.log = append(f.log, fmt.Sprintf("release %s of %s for %s", *r.Config.Profile, r.Device.Name, r.ClaimUID))
	return nil
}

func (f *fakePool) set(fail error) { f.mu.Lock(); defer f.mu.Unlock(); f.fail = fail }
func (f *fakePool) said() []string { f.mu.Lock(); defer f.mu.Unlock(); return slices.Clone(f.log) }

// newProfiles opens what is on disk in dir, as a process that starts does.
func newProfiles(t *testing.T, dir string, provider Profiler) *Profiles {
	t.Helper()
	m := machineWith(t, mac0, mac1)
	return &Profiles{
		Provider: provider, Dir: dir, Poll: quick, Machine: func() *model.Machine { return m },
		Lock: func(context.Context, types.UID) (func(), error) { return func() {}, nil },
	}
}

func claimOf(uid types.UID, devices ...driver.Allocation) driver.Claim {
	c := driver.Claim{ClaimRef: driver.ClaimRef{UID: uid, Namespace: "default", Name: "net"}, Devices: devices}
	c.Object = &resourceapi.ResourceClaim{}
	c.Object.UID = uid
	return c
}

func allocation(request, device string, layers ...string) driver.Allocation {
	a := driver.Allocation{Request: request, Device: device}
	for _, raw := range layers {
		a.Configs = append(a.Configs, driver.Config{Source: "claim", Raw: []byte(raw)})
	}
	return a
}

const pooled = `{"profile": "acme.com/pool"}`

// layersOf writes a device's layers as "source: raw" each.
func layersOf(a driver.Allocation) []string {
	var all []string
	for _, l := range a.Configs {
		all = append(all, l.Source+": "+string(l.Raw))
	}
	return all
}

// Shares of one NIC have one request and one device, and an answer each.
func TestSharesAreResolvedEach(t *testing.T) {
	pool := &fakePool{}
	p := newProfiles(t, t.TempDir(), pool)
	a, b := allocation("nic", "eth0", pooled), allocation("nic", "eth0", pooled)
	a.ShareID, b.ShareID = ptr.To[types.UID]("share-a"), ptr.To[types.UID]("share-b")
	for range 2 { // the kubelet asks again
		got, err := p.Resolve(t.Context(), claimOf("u1", a, b))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"10.0.0.1/24", "10.0.0.2/24"} {
			if raw := string(got.Devices[i].Configs[0].Raw); !strings.Contains(raw, want) {
				t.Errorf("share %d: %s, want %s", i, raw, want)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	pool := &fakePool{}
	p := newProfiles(t, t.TempDir(), pool)
	p.Base = func(_ context.Context, d Device) ([]byte, error) {
		if d.MAC == mac1 {
			return []byte(`{"interface": {"mtu": 8896}}`), nil
		}
		return nil, nil
	}
	admin := allocation("look", "eth0", pooled)
	admin.AdminAccess = true
	asked := claimOf("u1", allocation("a", "eth0", pooled), allocation("b", "eth1", pooled), allocation("c", "eth1", `{}`), admin)
	got, err := p.Resolve(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{`profile: {"interface": {"addresses": ["10.0.0.1/24"]}}`, "claim: " + pooled},
		{`cloud: {"interface": {"mtu": 8896}}`, `profile: {"interface": {"addresses": ["10.0.0.2/24"]}}`, "claim: " + pooled},
		{`cloud: {"interface": {"mtu": 8896}}`, "claim: {}"},
		{"claim: " + pooled},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], layersOf(got.Devices[i])); diff != "" {
			t.Errorf("device %d (-want +got):\n%s", i, diff)
		}
	}
	if len(asked.Devices[0].Configs) != 1 {
		t.Error("Resolve changed the claim it was given")
	}
}

// A VRF has a rule and a table of its own: the cloud's routes stand there, told apart
// from those of another interface in the VRF by their metric. It does not matter
// whether the VRF is the claim's or the profile's.
func TestResolveBelowAVRF(t *testing.T) {
	const vrf = `{"interface": {"vrf": {"name": "blue"}}}`
	pool := &fakePool{answer: func(int) string { return vrf }}
	p := newProfiles(t, t.TempDir(), pool)
	p.Base = func(_ context.Context, d Device) ([]byte, error) {
		table, address := int64(101), "10.9.0.4"
		if d.MAC == mac1 {
			table, address = 102, "10.9.0.5"
		}
		return SourceRouting(table, netip.MustParsePrefix("10.9.0.0/24"), []netip.Addr{netip.MustParseAddr(address)})
	}
	type route struct{ table, metric int64 }
	for _, test := range []struct {
		name, first, second string
		rules               int
		want                [2]route
	}{
		{"the claim's", vrf, vrf, 0, [2]route{{0, 101}, {0, 102}}},
		{"the profile's", pooled, pooled, 0, [2]route{{0, 101}, {0, 102}}},
		{"one of each", pooled, vrf, 0, [2]route{{0, 101}, {0, 102}}},
		{"none", `{}`, `{}`, 1, [2]route{{101, 0}, {102, 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := claimOf("u1", allocation("a", "eth0", test.first), allocation("b", "eth1", test.second))
			first, err := p.Resolve(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range test.want {
				merged, err := merge(first.Devices[i].Configs)
				if err == nil {
					err = merged.Validate()
				}
				if err != nil {
					t.Fatal(err)
				}
				var got []route
				for _, r := range merged.Routes {
					got = append(got, route{ptr.Deref(r.Table, 0), ptr.Deref(r.Metric, 0)})
				}
				if !slices.Equal(got, []route{want, want}) || len(merged.Rules) != test.rules {
					t.Errorf("device %d: routes %+v, %d rules; want two of %+v, %d", i, got, len(merged.Rules), want, test.rules)
				}
			}
			// Such a claim is planned: no two of its routes are the same to the kernel.
			if err := errors.Join(netdev.CheckParameters(first.Devices)...); err != nil {
				t.Errorf("two NICs in one pod: %v", err)
			}
			// Asked again, a profile is known by what it was known by.
			again, err := p.Resolve(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for i := range first.Devices {
				if diff := cmp.Diff(compact(t, layersOf(first.Devices[i])), compact(t, layersOf(again.Devices[i]))); diff != "" {
					t.Errorf("asked again (-first +again):\n%s", diff)
				}
			}
		})
	}
	if n := len(pool.said()); n != 2 {
		t.Errorf("the provider was asked %d times for two devices", n)
	}
}

func TestResolveRemembers(t *testing.T) {
	pool, dir := &fakePool{}, t.TempDir()
	c := claimOf("u1", allocation("a", "eth0", pooled), allocation("b", "eth1", pooled))
	first, err := newProfiles(t, dir, pool).Resolve(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	// The agent restarts, and the kubelet asks again; the provider is away.
	pool.set(errors.New("connection refused"))
	again, err := newProfiles(t, dir, pool).Resolve(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Devices {
		if diff := cmp.Diff(compact(t, layersOf(first.Devices[i])), compact(t, layersOf(again.Devices[i]))); diff != "" {
			t.Errorf("asked again (-first +again):\n%s", diff)
		}
	}
	if pool.given != 2 {
		t.Errorf("the provider was asked %d times for two devices", pool.given)
	}
}

// compact makes JSON texts behind "source: " comparable.
func compact(t *testing.T, layers []string) []string {
	t.Helper()
	var out []string
	for _, l := range layers {
		source, raw, _ := strings.Cut(l, ": ")
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s: %v", source, v))
	}
	return out
}

// A crash comes after the first device's answer: it must not be taken twice.
func TestResolveGoesOnWhereItStopped(t *testing.T) {
	pool, dir := &fakePool{}, t.TempDir()
	c := claimOf("u1", allocation("a", "eth0", pooled), allocation("b", "eth1", `{"profile": 7}`))
	if _, err := newProfiles(t, dir, pool).Resolve(t.Context(), c); err == nil {
		t.Fatal("a profile of the wrong type was resolved")
	}
	c.Devices[1] = allocation("b", "eth1", pooled)
	if _, err := newProfiles(t, dir, pool).Resolve(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := []string{"profile acme.com/pool of eth0 for u1", "profile acme.com/pool of eth1 for u1"}
	if diff := cmp.Diff(want, pool.said()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, test := range []struct {
		name     string
		provider Profiler
		base     error
		want     string
	}{
		{"without a provider", nil, nil, `device eth0: profile: "acme.com/pool": this node resolves no profiles: start its agent with --profile-provider, or leave the profile out`},
		{"a provider's refusal", &fakePool{fail: errors.New("HTTP status 409 \"the pool is empty\"")}, nil, `device eth0: profile: "acme.com/pool": HTTP status 409 "the pool is empty"`},
		{"a base layer nobody knows", &fakePool{}, errors.New("connection refused"), "device eth0: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			p := newProfiles(t, dir, test.provider)
			p.Base = func(context.Context, Device) ([]byte, error) { return nil, test.base }
			_, err := p.Resolve(t.Context(), claimOf("u1", allocation("a", "eth0", pooled)))
			if err == nil || err.Error() != test.want {
				t.Errorf("Resolve = %v\nwant %s", err, test.want)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("a refusal left %v", left)
			}
		})
	}
}

func TestAnEmptyAnswerIsAnAnswer(t *testing.T) {
	pool := &fakePool{answer: func(int) string { return "" }}
	got, err := newProfiles(t, t.TempDir(), pool).Resolve(t.Context(), claimOf("u1", allocation("a", "eth0", pooled)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"profile: {}", "claim: " + pooled}, layersOf(got.Devices[0])); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

func TestReleaseIsToldUntilItIsHeard(t *testing.T) {
	pool, dir := &fakePool{}, t.TempDir()
	p := newProfiles(t, dir, pool)
	c := claimOf("u1", allocation("a", "eth0", pooled))
	if _, err := p.Resolve(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pool.set(errors.New("connection refused"))
	for range 2 {
		if err := p.Release(t.Context(), c.ClaimRef); err != nil {
			t.Fatalf("Release must not wait for the provider: %v", err)
		}
	}
	if err := p.releaseAll(t.Context()); err == nil {
		t.Error("a failed release was taken for done")
	}
	// Another process: what ended before it began is told too.
	pool.set(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	next := newProfiles(t, dir, pool)
	go func() { defer close(done); next.Run(ctx) }()
	gone := func() bool { _, err := os.Stat(filepath.Join(dir, "u1.json")); return errors.Is(err, os.ErrNotExist) }
	eventually(t, "the claim is forgotten", gone)
	// And one that ends while it runs, in another process: nothing wakes it.
	if _, err := next.Resolve(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := newProfiles(t, dir, pool).Release(t.Context(), c.ClaimRef); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim is forgotten again", gone)
	cancel()
	<-done
	want := []string{
		"profile acme.com/pool of eth0 for u1", "release acme.com/pool of eth0 for u1",
		"profile acme.com/pool of eth0 for u1", "release acme.com/pool of eth0 for u1",
	}
	if diff := cmp.Diff(want, pool.said()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// The same claim is allocated again before its end was told: told later, its
// end would take away what it has now.
func TestResolveTellsAnOldEndFirst(t *testing.T) {
	pool := &fakePool{}
	p := newProfiles(t, t.TempDir(), pool)
	c := claimOf("u1", allocation("a", "eth0", pooled))
	if _, err := p.Resolve(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := p.Release(t.Context(), c.ClaimRef); err != nil {
		t.Fatal(err)
	}
	c.Devices[0].Device = "eth1"
	pool.set(errors.New("connection refused"))
	if _, err := p.Resolve(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not given back yet") {
		t.Fatalf("Resolve = %v, want a refusal", err)
	}
	pool.set(nil)
	if _, err := p.Resolve(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := p.releaseAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"profile acme.com/pool of eth0 for u1", "release acme.com/pool of eth0 for u1", "profile acme.com/pool of eth1 for u1",
	}
	if diff := cmp.Diff(want, pool.said()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestReleaseOfAClaimWithoutProfile(t *testing.T) {
	p := newProfiles(t, filepath.Join(t.TempDir(), "none"), nil)
	if err := p.Release(t.Context(), driver.ClaimRef{UID: "u1"}); err != nil {
		t.Error(err)
	}
	if err := p.Release(t.Context(), driver.ClaimRef{UID: "../u1"}); err == nil {
		t.Error("a UID with a path in it was accepted")
	}
	if err := p.releaseAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADamagedFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	p := newProfiles(t, dir, &fakePool{})
	for name, text := range map[string]string{
		"garbage": "{", "another claim's": `{"version": 1, "claim": {"uid": "u2"}}`, "a later version": `{"version": 9, "claim": {"uid": "u1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "u1.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := p.Resolve(t.Context(), claimOf("u1", allocation("a", "eth0", pooled)))
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Resolve = %v, want an error that names the file", err)
			}
		})
	}
}
