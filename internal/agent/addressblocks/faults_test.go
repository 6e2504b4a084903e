// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addressblocks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

var (
	seed        = flag.Uint64("seed", 1, "what the first cluster of TestAllocationsUnderFaults goes through")
	allocations = flag.Int("allocations", 1000, "how many claims TestAllocationsUnderFaults gives addresses to; make nightly has 5000")
)

// errKilled is what an agent dies of.
var errKilled = errors.New("killed")

// cluster is a pool, its blocks and the nodes that have them, with a test for an operator.
type cluster struct {
	t      testing.TB
	r      *rand.Rand
	api    *apiServer
	client rest.Interface
	pool   nets.NetworkAddressPoolSpec
	// blocks are by number; away says that nobody reaches the API server.
	blocks map[int]*clusterBlock
	made   int
	away   bool
	nodes  []*faultyNode
}

type clusterBlock struct {
	node string
	block
}

// faultyNode is what survives an agent, and the agent.
type faultyNode struct {
	*cluster
	name, dir string
	boot      int
	host      *hosttest.Namespace
	machine   *model.Machine
	keeper    *Keeper
	claims    *claims.Preparer
	// records reads the journal, whatever agent writes it.
	records *journal.Journal
	// between is called when a claim's planner has read the block, before the allocation
	// lock is taken; killAt is the number of the step after which the agent dies.
	between func()
	killAt  int
	step    claims.Step
	// live are the claims that have not ended, had the addresses that each has been given;
	// given counts those.
	live  map[types.UID]driver.Claim
	had   map[types.UID][]netip.Addr
	given int
	// read are the addresses of plans that were read already.
	read map[string][]netip.Addr
}

func newCluster(t testing.TB, seed uint64, pool nets.NetworkAddressPoolSpec, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, r: rand.New(rand.NewPCG(seed, 1)), pool: pool, blocks: map[int]*clusterBlock{}}
	c.api, c.client = serve(t)
	for _, name := range nodes {
		n := &faultyNode{cluster: c, name: name, dir: memory(t), host: hosttest.NewNamespace(t), live: map[types.UID]driver.Claim{}, had: map[types.UID][]netip.Addr{}, read: map[string][]netip.Addr{}}
		n.host.Run(t, "ip link add nic0 address 02:00:00:00:00:01 type veth peer name port0\nip link set port0 up\nip link set nic0 up")
		n.machine = machineOf(t, n.host)
		var err error
		if n.records, err = journal.Open(filepath.Join(n.dir, "journal")); err != nil {
			t.Fatal(err)
		}
		n.start()
		c.nodes = append(c.nodes, n)
	}
	return c
}

// memory is a directory whose fsync costs nothing: what is killed are processes.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "plumbline-addresses")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// machineOf has the host's nic0, for sixteen thousand to share.
func machineOf(t testing.TB, host *hosttest.Namespace) *model.Machine {
	t.Helper()
	conn, err := nslink.Open(host.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	var parts model.Machine
	for _, link := range links {
		if link.Name == "nic0" {
			parts.NICs = []model.NIC{{
				Interface: &model.Interface{Name: link.Name, Index: link.Index, MAC: link.MAC, Kind: link.Kind, Virtual: true},
				Share:     &model.Share{Type: model.ShareMacvlan, Slots: 1 << 14},
			}}
		}
	}
	m, err := model.New(parts)
	if err != nil || len(m.NICs) != 1 {
		t.Fatalf("%d NICs, %v", len(m.NICs), err)
	}
	return m
}

// start is an agent's start. It knows the disk, and the cluster where that can be reached.
func (n *faultyNode) start() {
	n.t.Helper()
	if n.claims != nil {
		n.claims.Close()
	}
	keeper, err := Open(n.dir, n.name)
	if err != nil {
		n.t.Fatal(err)
	}
	keeper.patient = keeper.patient.AddDate(-1, 0, 0)
	bootID := fmt.Sprint("boot-", n.boot)
	d, err := netdev.New(netdev.Options{Host: n.host.Path(), BootID: bootID, Sys: fstest.MapFS{}, Pools: keeper})
	if err != nil {
		n.t.Fatal(err)
	}
	records, err := journal.Open(filepath.Join(n.dir, "journal"))
	if err != nil {
		n.t.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(n.dir, "cdi"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.keeper = keeper
	n.claims = &claims.Preparer{
		Driver: claims.Of(d), Journal: records, CDI: specs, BootID: bootID, Machine: func() *model.Machine { return n.machine },
		RuntimeReady: func() error { return nil }, Namespaces: agenttest.NoNamespaces{}, Changed: func() {}, Status: func(status.Report) {},
		Confirm: func(r driver.Record) error {
			blocks, err := netdev.BlocksOf(r)
			if err != nil {
				return err
			}
			return keeper.Confirm(blocks)
		},
		OnStep: func(s claims.Step) {
			n.step = s
			if n.killAt--; n.killAt == 0 {
				panic(errKilled)
			}
		},
	}
	n.claims.FromPool, n.claims.Close = netdev.FromPool, d.Close
	n.claims.Reader = reader{HostReader: d, after: func() {
		if n.between != nil {
			n.between()
		}
	}}
	if err := n.claims.Recover(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	n.hear()
}

// reader calls a function after what it reads.
type reader struct {
	driver.HostReader
	after func()
}

func (r reader) Read(ctx context.Context, c driver.Claim, m *model.Machine) (driver.Planner, error) {
	p, err := r.HostReader.Read(ctx, c, m)
	r.after()
	return p, err
}

// hear has the agent know what the cluster says, as an event has.
func (n *faultyNode) hear() {
	n.t.Helper()
	if n.away {
		return
	}
	var blocks []block
	for _, number := range slices.Sorted(maps.Keys(n.blocks)) {
		if b := n.blocks[number]; b.node == n.name {
			known := b.block
			known.status = n.api.told[b.Name]
			blocks = append(blocks, known)
		}
	}
	if err := n.keeper.know(func(now *known) {
		now.Pools, now.Blocks = map[string]nets.NetworkAddressPoolSpec{"fabric": n.pool}, blocks
		now.poolsTold, now.blocksTold = true, true
	}); err != nil {
		n.t.Fatal(err)
	}
}

// tell has the agent tell the API server what is in use, and give back.
func (n *faultyNode) tell() error {
	n.api.refuse = n.away
	_, err := n.keeper.look(n.t.Context(), Options{
		Client: n.client,
		Lock: func(ctx context.Context) (func(), error) {
			return n.claims.Journal.LockAllocation(ctx, netdev.Name)
		},
		InUse: func() ([]netip.Addr, error) {
			var all []netip.Addr
			for _, addresses := range n.recorded() {
				all = append(all, addresses...)
			}
			return all, nil
		},
	})
	return err
}

// recorded are the addresses of claims, by the journal.
func (n *faultyNode) recorded() map[types.UID][]netip.Addr {
	n.t.Helper()
	all := map[types.UID][]netip.Addr{}
	records, problems, err := n.records.List(netdev.Name)
	if err != nil || len(problems) > 0 {
		n.t.Fatal(err, problems)
	}
	for _, r := range records {
		plan := string(r.Devices[0].Plan)
		if n.read[plan] == nil {
			if n.read[plan], err = netdev.Addresses(r); err != nil {
				n.t.Fatal(err)
			}
		}
		all[r.Claim.UID] = n.read[plan]
	}
	return all
}

// carve has the operator make blocks for the nodes that lack one.
func (c *cluster) carve() {
	subnets := c.subnets()
	for _, i := range c.r.Perm(len(c.nodes)) {
		n := c.nodes[i]
		if slices.ContainsFunc(slices.Collect(maps.Values(c.blocks)), func(b *clusterBlock) bool { return b.node == n.name && !b.Deleting }) {
			continue
		}
		for number := range subnets[0].Blocks() {
			if c.blocks[number] != nil {
				continue
			}
			c.made++
			b := &clusterBlock{node: n.name, block: block{Name: fmt.Sprint("fabric.", number), UID: types.UID(fmt.Sprint("block-", c.made)), Pool: "fabric"}}
			for _, s := range subnets {
				b.Ranges = append(b.Ranges, s.Block(number).String())
			}
			c.blocks[number] = b
			c.api.mu.Lock()
			delete(c.api.told, b.Name)
			c.api.uids[b.Name] = b.UID
			c.api.mu.Unlock()
			break
		}
	}
}

func (c *cluster) subnets() []addresspool.Subnet {
	var subnets []addresspool.Subnet
	for _, s := range c.pool.Subnets {
		subnet, err := addresspool.ParseSubnet(s.CIDR, int(s.BlockSize), s.Gateway, s.Exclude)
		if err != nil {
			c.t.Fatal(err)
		}
		subnets = append(subnets, subnet)
	}
	return subnets
}

// remove has the operator delete a node's block; reap lets those go that were given back.
func (c *cluster) remove(node string) {
	for _, b := range c.blocks {
		if b.node == node {
			b.Deleting = true
		}
	}
}

func (c *cluster) reap() (reaped int) {
	for number, b := range c.blocks {
		if b.Deleting && c.api.told[b.Name].GivenBack {
			delete(c.blocks, number)
			reaped++
		}
	}
	return reaped
}

// check asserts that no address is two claims', that each is of a block that its node has, and
// that claims keep what they were given. After a reboot one whose block is being given back gets
// another address.
func (c *cluster) check(what string) {
	c.t.Helper()
	whose := map[netip.Addr]string{}
	for _, n := range c.nodes {
		recorded := n.recorded()
		for uid, addresses := range recorded {
			if before := n.had[uid]; before != nil && !slices.Equal(before, addresses) && !n.leaves(before[0]) {
				c.t.Fatalf("%s: claim %s of %s has %v, and had %v", what, uid, n.name, addresses, before)
			}
			if n.had[uid] == nil {
				n.given++
			}
			n.had[uid] = addresses
			for _, a := range addresses {
				if other := whose[a]; other != "" {
					c.t.Fatalf("%s: %s is claim %s's and claim %s's", what, a, other, uid)
				}
				whose[a] = string(uid)
				if n.blockOf(a) == nil {
					c.t.Fatalf("%s: %s of claim %s is in no block of %s", what, a, uid, n.name)
				}
			}
		}
		maps.DeleteFunc(n.had, func(uid types.UID, _ []netip.Addr) bool { return recorded[uid] == nil })
	}
}

// blockOf is the node's block with an address; nil for none.
func (n *faultyNode) blockOf(a netip.Addr) *clusterBlock {
	for _, b := range n.blocks {
		if b.node == n.name && slices.ContainsFunc(b.Ranges, func(text string) bool { return netip.MustParsePrefix(text).Contains(a) }) {
			return b
		}
	}
	return nil
}

func (n *faultyNode) leaves(a netip.Addr) bool {
	b := n.blockOf(a)
	return b != nil && b.Deleting
}

// killed does something with an agent that dies after a number of steps, 0 for never, and
// starts the next one where it did.
func (n *faultyNode) killed(after int, do func() error) (err error) {
	n.killAt = after
	defer func() {
		n.killAt = 0
		if dead := recover(); dead != nil {
			if dead != errKilled { //nolint:errorlint // it is the very value
				panic(dead)
			}
			n.start()
			err = errKilled
		}
	}()
	return do()
}

func (n *faultyNode) prepare(c driver.Claim, killAfter int) error {
	return n.killed(killAfter, func() error {
		_, err := n.claims.Prepare(n.t.Context(), c)
		return err
	})
}

func (n *faultyNode) unprepare(c driver.Claim, killAfter int) error {
	return n.killed(killAfter, func() error { return n.claims.Unprepare(n.t.Context(), c.ClaimRef) })
}

// fromFabric is a claim of a share of nic0 with addresses of the pool.
func fromFabric(name, node string) driver.Claim {
	return driver.Claim{
		ClaimRef: driver.ClaimRef{UID: types.UID(name), Namespace: "default", Name: name},
		Pods:     []driver.PodRef{{UID: types.UID("pod-" + name), Name: name}},
		Devices: []driver.Allocation{{
			Request: "nic", Pool: node, Device: "nic0", ShareID: new(types.UID("share-" + name)),
			Configs: []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"name": "net1", "ipam": {"pool": "fabric"}}}`)}},
		}},
	}
}

// smallFabric has eight blocks of eight addresses, of which a node's is full soon.
var smallFabric = nets.NetworkAddressPoolSpec{Subnets: []nets.AddressSubnet{
	{CIDR: "10.77.0.0/26", BlockSize: 29, Gateway: "10.77.0.1", Exclude: []string{"10.77.0.12"}}, {CIDR: "fd00::/64", BlockSize: 67},
}}

// Claims come and go while agents are killed at any step and nodes started anew, blocks are
// deleted and become other nodes', and the API server is away. At no time is an address two
// claims', and at the end none is in use.
func TestAllocationsUnderFaults(t *testing.T) {
	const clusters = 2
	for i := range uint64(clusters) {
		t.Run(fmt.Sprint("seed ", *seed+i), func(t *testing.T) {
			t.Parallel()
			allocate(t, *seed+i, *allocations/clusters)
		})
	}
}

// allocate gives addresses to as many claims of two nodes.
func allocate(t *testing.T, seed uint64, all int) {
	c := newCluster(t, seed, smallFabric, "node-a", "node-b")
	c.carve()
	seen := map[string]int{}
	claimed := 0
	given := func() int { return c.nodes[0].given + c.nodes[1].given }
	// raced has the block given back, and become another's, while a claim is planned.
	raced := func(n *faultyNode) func() {
		if n.away || c.r.IntN(24) > 0 {
			return nil
		}
		return func() {
			n.between = nil
			c.remove(n.name)
			n.hear()
			if err := n.tell(); err != nil {
				t.Fatal(err)
			}
			if c.reap() == 0 {
				return
			}
			seen["given back while planned"]++
			if c.r.IntN(2) == 0 { // and all of it is forgotten
				c.carve()
				n.hear()
				if err := n.tell(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	dies := func() int { return max(0, c.r.IntN(40)-32) } // one in five, at any step
	for given() < all {
		n := c.nodes[c.r.IntN(len(c.nodes))]
		what := ""
		switch x := c.r.IntN(100); {
		case x < 45 && len(n.live) < 10:
			claimed++
			claim := fromFabric(fmt.Sprint("c", claimed), n.name)
			n.between = raced(n)
			err := n.prepare(claim, dies())
			n.between = nil
			what = fmt.Sprintf("prepare %s: %v", claim.UID, err)
			n.live[claim.UID] = claim
			switch {
			case err == nil:
			case errors.Is(err, errKilled):
				seen["killed in Prepare after "+string(n.step)]++
			case strings.Contains(err.Error(), "has no free address"):
				seen["full"]++
			case strings.Contains(err.Error(), "was given back meanwhile"):
				seen["confirmed too late"]++
			case strings.Contains(err.Error(), "has no block of it"):
				seen["no block"]++
				if !c.away && c.r.IntN(2) == 0 {
					c.carve()
					n.hear()
				}
			default:
				t.Fatal(err)
			}
		case x < 55 && len(n.live) > 0: // the kubelet asks again
			claim := n.any()
			what = fmt.Sprintf("prepare %s again: %v", claim.UID, n.prepare(claim, dies()))
		case x < 86 && len(n.live) > 0:
			claim := n.any()
			err := n.unprepare(claim, dies())
			what = fmt.Sprintf("unprepare %s: %v", claim.UID, err)
			switch {
			case err == nil:
				delete(n.live, claim.UID)
			case errors.Is(err, errKilled):
				seen["killed in Unprepare after "+string(n.step)]++
			default:
				t.Fatal(err)
			}
		case x < 87:
			what = "block of " + n.name + " deleted"
			c.remove(n.name)
		case x < 89:
			what = n.name + " is started anew"
			n.boot++
			n.start()
			seen["reboot"]++
		case x < 90:
			c.away = !c.away
			what = fmt.Sprint("API server away: ", c.away)
		case x < 95:
			switch err := n.tell(); {
			case err == nil:
			case c.away:
				seen["not told"]++
			case apierrors.IsConflict(err):
				seen["told of a block that has gone"]++
			default:
				t.Fatal(err)
			}
			what = n.name + " tells"
		default:
			if !c.away {
				seen["given back"] += c.reap()
				c.carve()
			}
			n.hear()
			what = n.name + " hears"
		}
		c.check(fmt.Sprintf("seed %d, after %d, %s", seed, given(), what))
	}
	c.away = false
	for _, n := range c.nodes {
		n.hear()
		for len(n.live) > 0 {
			claim := n.any()
			if err := n.unprepare(claim, dies()); err == nil {
				delete(n.live, claim.UID)
			}
			c.check("the end")
		}
		if err := n.tell(); err != nil {
			t.Fatal(err)
		}
		if left := n.recorded(); len(left) > 0 {
			t.Errorf("%s: left %v", n.name, left)
		}
		c.remove(n.name)
		n.hear()
		if err := n.tell(); err != nil {
			t.Fatal(err)
		}
	}
	if c.reap(); len(c.blocks) > 0 {
		t.Errorf("%d blocks are not given back", len(c.blocks))
	}
	for name, told := range c.api.told {
		if told.Used != 0 || told.InUseExcluded != 0 {
			t.Errorf("block %s: %+v at the end", name, told)
		}
	}
	for _, want := range []string{
		"full", "no block", "confirmed too late", "given back", "given back while planned", "not told", "reboot",
		"killed in Prepare after planned", "killed in Prepare after spec written",
		"killed in Unprepare after detached", "killed in Unprepare after spec removed", "killed in Unprepare after forgotten",
	} {
		if seen[want] == 0 {
			t.Errorf("it never came to %q: this test proves less than it should", want)
		}
	}
	t.Logf("%d claims, %d of them had addresses, of %d blocks: %v", claimed, given(), c.made, seen)
}

// any is one of the live claims.
func (n *faultyNode) any() driver.Claim {
	uids := slices.Sorted(maps.Keys(n.live))
	return n.live[uids[n.r.IntN(len(uids))]]
}

// An agent that is killed after any step of Prepare or of Unprepare leaves an address with its
// claim, or free.
func TestKilledAtEveryStep(t *testing.T) {
	c := newCluster(t, *seed, smallFabric, "node-a")
	c.carve()
	n := c.nodes[0]
	n.hear()
	reached := map[claims.Step]bool{}
	for _, unprepares := range []bool{false, true} {
		for step := 1; ; step++ {
			claim := fromFabric(fmt.Sprintf("c%d-%t", step, unprepares), n.name)
			beside := fromFabric(fmt.Sprintf("beside%d-%t", step, unprepares), n.name)
			var err error
			if unprepares {
				if err := n.prepare(claim, 0); err != nil {
					t.Fatal(err)
				}
				err = n.unprepare(claim, step)
			} else {
				err = n.prepare(claim, step)
			}
			c.check(fmt.Sprint("killed after ", n.step))
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			reached[n.step] = true
			if err := errors.Join(n.prepare(beside, 0)); err != nil {
				t.Fatal(err)
			}
			if !unprepares {
				if err := n.prepare(claim, 0); err != nil {
					t.Fatal(err)
				}
			}
			c.check(fmt.Sprint("after the next agent came, killed after ", n.step))
			if err := errors.Join(n.unprepare(claim, 0), n.unprepare(beside, 0)); err != nil {
				t.Fatal(err)
			}
			if left := n.recorded(); len(left) > 0 {
				t.Errorf("killed after %s: left %v", n.step, left)
			}
			if err == nil { // it has no more steps
				break
			}
		}
	}
	for _, s := range claims.Steps() {
		if !reached[s] && s != claims.StepAttached { // the pod has no namespace
			t.Errorf("no agent was killed after %q", s)
		}
	}
}
