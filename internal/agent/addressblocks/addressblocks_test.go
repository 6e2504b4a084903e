// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addressblocks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/kube"
)

// apiServer takes what the keeper tells.
type apiServer struct {
	mu   sync.Mutex
	told map[string]nets.NetworkAddressBlockStatus
	// uids are those of the blocks; one that is not there has whichever.
	uids map[string]types.UID
	// refuse answers with an error.
	refuse bool
	// asked counts requests.
	asked int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := io.ReadAll(r.Body)
	s.asked++
	var patch struct {
		Metadata struct{ UID types.UID }
		Status   nets.NetworkAddressBlockStatus
	}
	if err == nil {
		err = json.Unmarshal(text, &patch)
	}
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/apis/plumbline.dev/v1alpha1/networkaddressblocks/"), "/status")
	if s.refuse || err != nil || r.Method != http.MethodPatch {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	if uid, there := s.uids[name]; there && uid != patch.Metadata.UID {
		http.Error(w, "another block of the name", http.StatusConflict)
		return
	}
	s.told[name] = patch.Status
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"apiVersion": "plumbline.dev/v1alpha1", "kind": "NetworkAddressBlock"}`)
}

func serve(t testing.TB) (*apiServer, rest.Interface) {
	t.Helper()
	api := &apiServer{told: map[string]nets.NetworkAddressBlockStatus{}, uids: map[string]types.UID{}}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	client, err := kube.OwnClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return api, client
}

func open(t *testing.T, dir string) *Keeper {
	t.Helper()
	k, err := Open(dir, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	k.patient = time.Time{}
	return k
}

var fabric = nets.NetworkAddressPoolSpec{
	Subnets: []nets.AddressSubnet{
		{CIDR: "192.168.111.0/24", BlockSize: 28, Gateway: "192.168.111.1", Exclude: []string{"192.168.111.18"}},
		{CIDR: "fd00::/64", BlockSize: 80},
	},
	Routes: []nets.PoolRoute{{Destination: "10.0.0.0/8"}, {Destination: "fd01::/64", Gateway: "fd00::1"}},
}

func knows(t *testing.T, k *Keeper, blocks ...block) {
	t.Helper()
	err := k.know(func(now *known) {
		now.Pools, now.Blocks = map[string]nets.NetworkAddressPoolSpec{"fabric": fabric, "storage": fabric}, blocks
		now.poolsTold, now.blocksTold = true, true
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ofFabric(uid string, deleting bool) block {
	return block{Name: "fabric.1", UID: types.UID(uid), Pool: "fabric", Ranges: []string{"192.168.111.16/28", "fd00:0:0:0:1::/80"}, Deleting: deleting}
}

func TestBlock(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	if _, err := k.Block("fabric"); err == nil || !strings.Contains(err.Error(), "is not known yet: the API server has not answered this agent") {
		t.Errorf("before the cluster has told: %v", err)
	}
	knows(t, k, ofFabric("u1", false))
	for pool, want := range map[string]string{
		"fabrik":  `"fabrik": there is no such NetworkAddressPool: want one of fabric, storage`,
		"storage": `"storage": node node-a has no block of it: kubectl get networkaddresspool storage says why`,
	} {
		if _, err := k.Block(pool); err == nil || err.Error() != want {
			t.Errorf("pool %s: %v, want %s", pool, err, want)
		}
	}
	// Also of an agent that starts while the API server is away.
	for _, k := range []*Keeper{k, open(t, dir)} {
		b, err := k.Block("fabric")
		if err != nil {
			t.Fatal(err)
		}
		if b.Name != "fabric.1" || len(b.Parts) != 2 || b.Parts[0].Usable(netip.MustParseAddr("192.168.111.18")) || len(b.Routes) != 2 ||
			b.Routes[0].Gateway != netip.MustParseAddr("192.168.111.1") || b.Routes[1].Gateway != netip.MustParseAddr("fd00::1") {
			t.Errorf("block %+v", b)
		}
	}
	knows(t, k, block{Name: "fabric.1", Pool: "fabric", Ranges: []string{"10.0.0.0/28", "fd00::/80"}})
	if _, err := k.Block("fabric"); err == nil || !strings.Contains(err.Error(), `block fabric.1: spec.ranges: none of 10.0.0.0/28, fd00::/80 is a block of 192.168.111.0/24 with /28`) {
		t.Errorf("a block that is none of its pool: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, knownFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "node-a"); err == nil || !strings.Contains(err.Error(), knownFile) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// The subnets of a pool may be written in another order while nodes have blocks.
func TestSubnetsInAnotherOrder(t *testing.T) {
	k := open(t, t.TempDir())
	knows(t, k, ofFabric("u", false))
	before, err := k.Block("fabric")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.know(func(now *known) {
		turned := fabric
		turned.Subnets = []nets.AddressSubnet{fabric.Subnets[1], fabric.Subnets[0]}
		now.Pools["fabric"] = turned
	}); err != nil {
		t.Fatal(err)
	}
	after, err := k.Block("fabric")
	if err != nil || len(after.Parts) != 2 || after.Parts[0].Range != before.Parts[1].Range || after.Parts[1].Range != before.Parts[0].Range {
		t.Errorf("block %+v, %v; before %+v", after, err, before)
	}
}

// An agent that has just started asks the API server before it goes by the disk: its block may be
// another node's by now.
func TestStartAsksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		knows(t, open(t, dir), ofFabric("u", false))
		for _, answers := range []bool{true, false} {
			k, err := Open(dir, "node-a")
			if err != nil {
				t.Fatal(err)
			}
			if answers {
				go func() {
					time.Sleep(firstAnswer / 2)
					knows(t, k) // it has no block any more
				}()
			}
			b, err := k.Block("fabric")
			if answers && (err == nil || !strings.Contains(err.Error(), "node node-a has no block of it")) {
				t.Errorf("the API server answers: block %+v, %v", b, err)
			}
			if !answers && err == nil {
				t.Errorf("the API server said that there is no block, which is on the disk, and %+v is one", b)
			}
		}
		knows(t, open(t, dir), ofFabric("u", false))
		k, err := Open(dir, "node-a")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := k.Block("fabric"); err != nil || b.Name != "fabric.1" {
			t.Errorf("the API server is away: %+v, %v; want what is on the disk", b, err)
		}
		began := time.Now()
		if _, err := k.Block("fabric"); err != nil || time.Since(began) > 0 {
			t.Errorf("a later claim waited %v for an API server that is away: %v", time.Since(began), err)
		}
	})
}

// Claims keep addresses that nobody gets any more, and the block says how many.
func TestInUseExcluded(t *testing.T) {
	api, client := serve(t)
	o := Options{
		Client: client, InUse: func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.168.111.19"), netip.MustParseAddr("192.168.111.20"), netip.MustParseAddr("192.168.111.21"), netip.MustParseAddr("fd00:0:0:0:1::7")}, nil
		},
		Lock: func(context.Context) (func(), error) { return func() {}, nil },
	}
	k := open(t, t.TempDir())
	for _, step := range []struct {
		gateway string
		exclude []string
		want    int64
	}{
		{"192.168.111.1", nil, 0},
		{"192.168.111.1", []string{"192.168.111.20/31"}, 2},
		{"192.168.111.19", []string{"192.168.111.20"}, 2},
		{"192.168.111.1", []string{"192.168.111.30"}, 0},
	} {
		b := ofFabric("u", false)
		b.status = api.told["fabric.1"]
		knows(t, k, b)
		if err := k.know(func(now *known) {
			changed := fabric
			changed.Subnets = slices.Clone(fabric.Subnets)
			changed.Subnets[0].Gateway, changed.Subnets[0].Exclude = step.gateway, step.exclude
			now.Pools["fabric"] = changed
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := k.look(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got, want := api.told["fabric.1"], (nets.NetworkAddressBlockStatus{Used: 4, InUseExcluded: step.want}); got != want {
			t.Errorf("gateway %s, exclude %s: told %+v, want %+v", step.gateway, step.exclude, got, want)
		}
		// Nobody else gets them.
		joined, err := k.Block("fabric")
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range step.exclude {
			if p, err := netip.ParsePrefix(x); err == nil && joined.Parts[0].Usable(p.Addr()) {
				t.Errorf("%s is given out", p.Addr())
			}
		}
	}
}

// A block that is deleted is given back once no claim has an address of it, and from then on
// no claim gets one, whoever read it as open, and whatever process asks.
func TestGivingBack(t *testing.T) {
	dir := t.TempDir()
	api, client := serve(t)
	inUse := []netip.Addr{netip.MustParseAddr("192.168.111.20"), netip.MustParseAddr("10.0.0.1")}
	o := Options{
		Client: client, InUse: func() ([]netip.Addr, error) { return inUse, nil },
		Lock: func(context.Context) (func(), error) { return func() {}, nil },
	}
	for _, step := range []struct {
		what    string
		block   block
		free    bool
		refuse  bool
		open    bool
		want    nets.NetworkAddressBlockStatus
		confirm bool
	}{
		{what: "in use", block: ofFabric("u1", false), want: nets.NetworkAddressBlockStatus{Used: 1}, confirm: true},
		{what: "deleted while a claim has an address", block: ofFabric("u1", true), open: true, want: nets.NetworkAddressBlockStatus{Used: 1}},
		{what: "the claim ends, and the API server is away", block: ofFabric("u1", true), free: true, refuse: true, want: nets.NetworkAddressBlockStatus{Used: 1}},
		{what: "the API server is back", block: ofFabric("u1", true), free: true, want: nets.NetworkAddressBlockStatus{GivenBack: true}},
		{what: "another block of the name", block: ofFabric("u2", false), free: true, want: nets.NetworkAddressBlockStatus{}, confirm: true},
	} {
		if step.free {
			inUse = nil
		}
		api.mu.Lock()
		api.refuse = step.refuse
		said := api.told["fabric.1"]
		api.mu.Unlock()
		step.block.status = said
		k := open(t, dir) // each step is another process
		knows(t, k, step.block)
		isOpen, err := k.look(t.Context(), o)
		if (err != nil) != step.refuse || isOpen != step.open {
			t.Errorf("%s: open %t, want %t; %v", step.what, isOpen, step.open, err)
		}
		if got := api.told["fabric.1"]; got != step.want {
			t.Errorf("%s: told %+v, want %+v", step.what, got, step.want)
		}
		if err := k.Confirm([]string{"fabric.1"}); (err == nil) != step.confirm {
			t.Errorf("%s: confirmed: %v, want %t", step.what, err, step.confirm)
		}
	}
}

// Claims come and go while blocks do: none has an address of a block that was given back.
func TestNothingIsUsedAfterGivingBack(t *testing.T) {
	dir := t.TempDir()
	_, client := serve(t)
	var allocation sync.Mutex
	inUse := map[int]netip.Addr{}
	o := Options{
		Client: client,
		Lock: func(context.Context) (func(), error) {
			allocation.Lock()
			return allocation.Unlock, nil
		},
		InUse: func() ([]netip.Addr, error) {
			var all []netip.Addr
			for _, a := range inUse {
				all = append(all, a)
			}
			return all, nil
		},
	}
	k := open(t, dir)
	knows(t, k, ofFabric("u", false))
	var working sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 4 {
		working.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				b, err := k.Block("fabric") // without the lock, as a driver reads
				if err == nil {
					allocation.Lock()
					used := map[netip.Addr]bool{}
					for _, a := range inUse {
						used[a] = true
					}
					picked, err := b.Pick(fmt.Sprint(worker, i), func(a netip.Addr) bool { return used[a] })
					if err == nil && k.Confirm([]string{b.Name}) == nil {
						inUse[worker*1000000+i] = picked[0].Addr()
					}
					allocation.Unlock()
				}
				// Claims end while there is no block, too: it waits for them.
				if r.IntN(2) == 0 {
					allocation.Lock()
					for key := range inUse {
						if key/1000000 == worker {
							delete(inUse, key)
						}
					}
					allocation.Unlock()
				}
			}
		})
	}
	for range 30 {
		knows(t, k, ofFabric("u", true))
		for {
			used, closed, err := k.count(t.Context(), o, k.blocks())
			if err != nil {
				t.Fatal(err)
			}
			if used["fabric.1"].Used > 0 {
				continue
			}
			// Given back: from here on nothing may be used.
			if closed["fabric.1"] != "u" {
				t.Fatal("it is not closed")
			}
			break
		}
		allocation.Lock()
		if len(inUse) > 0 {
			t.Errorf("used after it was given back: %v", inUse)
		}
		allocation.Unlock()
		knows(t, k) // the block has gone
		if _, _, err := k.count(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		knows(t, k, ofFabric("u", false))
	}
	close(stop)
	working.Wait()
}
