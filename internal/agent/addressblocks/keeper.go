// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addressblocks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
	"plumbline.dev/plumbline/internal/atomicfile"
)

// The files of a keeper, in the agent's state directory.
const (
	knownFile  = "address-blocks.json"
	closedFile = "address-blocks-given-back.json"
)

// known is what the cluster said last.
type known struct {
	Pools  map[string]nets.NetworkAddressPoolSpec `json:"pools"`
	Blocks []block                                `json:"blocks"`
	// poolsTold and blocksTold say that this is not from the disk.
	poolsTold, blocksTold bool
}

// firstAnswer is how long an agent that has just started waits for the API server before it
// goes by what is on the disk: while it was away its block may have become another node's. A
// claim that is prepared was read a moment ago, so that the API server answers in most cases.
const firstAnswer = 3 * time.Second

// block is one of the node's.
type block struct {
	Name     string    `json:"name"`
	UID      types.UID `json:"uid"`
	Pool     string    `json:"pool"`
	Ranges   []string  `json:"ranges"`
	Deleting bool      `json:"deleting,omitempty"`
	// status is what the block's says.
	status nets.NetworkAddressBlockStatus
}

// Keeper knows the node's blocks. Its methods may be called concurrently.
type Keeper struct {
	node, dir string

	mu  sync.Mutex
	now known
	// told is closed when the cluster has told since this process started, for which claims
	// wait until the moment patient.
	told    chan struct{}
	patient time.Time
	wake    chan struct{}
}

// Open reads what an earlier process knew.
func Open(dir, node string) (*Keeper, error) {
	k := &Keeper{node: node, dir: dir, wake: make(chan struct{}, 1), told: make(chan struct{}), patient: time.Now().Add(firstAnswer)}
	if err := read(filepath.Join(dir, knownFile), &k.now); err != nil {
		return nil, fmt.Errorf("read the node's blocks of addresses: %w", err)
	}
	return k, nil
}

// read leaves the value as it is where there is no file.
func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: remove it while the API server answers", path, err)
	}
	return nil
}

func write(path string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = atomicfile.Write(path, 0o600, bytes.NewReader(text))
	}
	return err
}

// Block is the node's block of a pool, or why it has none.
func (k *Keeper) Block(pool string) (addresspool.Block, error) {
	select {
	case <-k.told:
	case <-time.After(time.Until(k.patient)):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	spec, there := k.now.Pools[pool]
	if !there && !k.now.poolsTold {
		return addresspool.Block{}, fmt.Errorf("%q: which pools there are is not known yet: the API server has not answered this agent", pool)
	}
	if !there {
		names := "there is none"
		if len(k.now.Pools) > 0 {
			names = "want one of " + strings.Join(slices.Sorted(maps.Keys(k.now.Pools)), ", ")
		}
		return addresspool.Block{}, fmt.Errorf("%q: there is no such NetworkAddressPool: %s", pool, names)
	}
	i := slices.IndexFunc(k.now.Blocks, func(b block) bool { return b.Pool == pool && !b.Deleting })
	if i < 0 {
		return addresspool.Block{}, fmt.Errorf("%q: node %s has no block of it: kubectl get networkaddresspool %s says why", pool, k.node, pool)
	}
	return blockOf(k.now.Blocks[i], spec)
}

// blockOf joins a block with its pool. Which of its ranges is of which subnet the addresses say:
// the pool's subnets may have another order by now.
func blockOf(b block, pool nets.NetworkAddressPoolSpec) (addresspool.Block, error) {
	out := addresspool.Block{Pool: b.Pool, Name: b.Name}
	if len(b.Ranges) != len(pool.Subnets) {
		return out, fmt.Errorf("block %s has %d ranges, and pool %s has %d subnets", b.Name, len(b.Ranges), b.Pool, len(pool.Subnets))
	}
	gateways := map[bool]netip.Addr{} // by whether they are of IPv4
	for i, s := range pool.Subnets {
		subnet, err := addresspool.ParseSubnet(s.CIDR, int(s.BlockSize), s.Gateway, s.Exclude)
		if err != nil {
			return out, fmt.Errorf("pool %s: spec.subnets[%d].%w", b.Pool, i, err)
		}
		part, ok := partOf(b.Ranges, subnet)
		if !ok {
			return out, fmt.Errorf("block %s: spec.ranges: none of %s is a block of %s with /%d", b.Name, strings.Join(b.Ranges, ", "), subnet.Prefix, subnet.BlockBits)
		}
		gateways[subnet.Prefix.Addr().Is4()] = subnet.Gateway
		out.Parts = append(out.Parts, addresspool.Part{Subnet: subnet, Range: part})
	}
	for i, r := range pool.Routes {
		route, err := routeOf(r, gateways)
		if err != nil {
			return out, fmt.Errorf("pool %s: spec.routes[%d].%w", b.Pool, i, err)
		}
		out.Routes = append(out.Routes, route)
	}
	return out, nil
}

func partOf(ranges []string, subnet addresspool.Subnet) (netip.Prefix, bool) {
	for _, text := range ranges {
		part, err := netip.ParsePrefix(text)
		if err == nil && part.Bits() == subnet.BlockBits && subnet.Prefix.Contains(part.Addr()) {
			return part, true
		}
	}
	return netip.Prefix{}, false
}

func routeOf(r nets.PoolRoute, gateways map[bool]netip.Addr) (addresspool.Route, error) {
	destination, err := netip.ParsePrefix(r.Destination)
	if err != nil {
		return addresspool.Route{}, fmt.Errorf("destination: %q: want a subnet", r.Destination)
	}
	out := addresspool.Route{Destination: destination.Masked(), Gateway: gateways[destination.Addr().Is4()]}
	if r.Gateway != "" {
		if out.Gateway, err = netip.ParseAddr(r.Gateway); err != nil {
			return out, fmt.Errorf("gateway: %q: want an address", r.Gateway)
		}
	}
	return out, nil
}

// Confirm refuses blocks that are being given back or have gone, whoever read them as open. It is
// called with the driver's allocation lock, under which they are closed. Which were closed is
// forgotten when they have gone: then they are no block that is known.
func (k *Keeper) Confirm(blocks []string) error {
	if len(blocks) == 0 {
		return nil
	}
	closed, err := k.closed()
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, b := range k.blocks() {
		open[b.Name] = !b.Deleting && closed[b.Name] != b.UID
	}
	for _, name := range blocks {
		if !open[name] {
			return fmt.Errorf("block %s of addresses was given back meanwhile: it will be tried again with another", name)
		}
	}
	return nil
}

// closed are the blocks that were given back, by name, with their UIDs: a later one of the
// name is another.
func (k *Keeper) closed() (map[string]types.UID, error) {
	closed := map[string]types.UID{}
	if err := read(filepath.Join(k.dir, closedFile), &closed); err != nil {
		return nil, fmt.Errorf("read which blocks of addresses were given back: %w", err)
	}
	return closed, nil
}

// know takes what the cluster says.
func (k *Keeper) know(change func(*known)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.now
	change(&k.now)
	if k.now.poolsTold && k.now.blocksTold && (!before.poolsTold || !before.blocksTold) {
		close(k.told)
	}
	select {
	case k.wake <- struct{}{}:
	default: // one is pending, and covers this change too
	}
	if err := write(filepath.Join(k.dir, knownFile), k.now); err != nil {
		return fmt.Errorf("keep the node's blocks of addresses: %w", err)
	}
	return nil
}

func (k *Keeper) blocks() []block {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.now.Blocks)
}

// usable says which addresses of a block somebody may still get; all of them, of a pool that
// is not known.
func (k *Keeper) usable(b block) func(netip.Addr) bool {
	k.mu.Lock()
	spec, there := k.now.Pools[b.Pool]
	k.mu.Unlock()
	joined, err := blockOf(b, spec)
	if !there || err != nil {
		return func(netip.Addr) bool { return true }
	}
	return func(a netip.Addr) bool {
		return slices.ContainsFunc(joined.Parts, func(p addresspool.Part) bool { return p.Usable(a) })
	}
}
