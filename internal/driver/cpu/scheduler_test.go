// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const nodeName = "node"

// publish makes the ResourceSlices of a machine's CPUs.
func publish(m *model.Machine, o slicecodec.CPUOptions) []*resourceapi.ResourceSlice {
	var published []*resourceapi.ResourceSlice
	name := nodeName
	parts := slicecodec.Split(slicecodec.Encode(m, slicecodec.DriverCPU, o))
	for i, devices := range parts {
		published = append(published, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("slice-%05d", i)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: slicecodec.DriverCPU, NodeName: &name, Devices: devices,
				Pool: resourceapi.ResourcePool{Name: nodeName, Generation: 1, ResourceSliceCount: int64(len(parts))},
			},
		})
	}
	return published
}

// randomClaim requests random amounts, also ones that no device has: the scheduler
// rounds up, or refuses.
func randomClaim(r *rand.Rand, name string, o slicecodec.CPUOptions) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for i := range 1 + r.IntN(3) {
		exactly := &resourceapi.ExactDeviceRequest{
			DeviceClassName: "dra.cpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		}
		if o.Mode == slicecodec.SingleCPUs {
			exactly.Count = 1 + r.Int64N(4)
		} else {
			exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
			for name, sizes := range map[string][]string{
				slicecodec.CapacityCPU:          {"1", "2", "3", "4", "1500m", "7", "250m"},
				slicecodec.CapacityHugepages2Mi: {"", "", "", "2Mi", "3Mi", "1", "64Mi"},
				slicecodec.CapacityHugepages1Gi: {"", "", "", "", "", "", "1Gi"},
			} {
				if size := sizes[r.IntN(len(sizes))]; size != "" {
					exactly.Capacity.Requests[resourceapi.QualifiedName(name)] = resource.MustParse(size)
				}
			}
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: exactly})
	}
	return c
}

// tenant is a claim with its record.
type tenant struct {
	claim  *resourceapi.ResourceClaim
	record driver.Record
}

// Whatever the real scheduler allocates of the published devices, for random claims that
// come and go, Plan accepts: as many CPUs and pages as were consumed, of the devices
// that were allocated, none twice. In the end all is free.
func TestPlanAcceptsWhatTheSchedulerAllocates(t *testing.T) {
	machines, steps := 60, 60
	if testing.Short() {
		machines = 8
	}
	modes := []slicecodec.CPUMode{slicecodec.PerNUMANode, slicecodec.PerSocket, slicecodec.WholeMachine, slicecodec.SingleCPUs}
	given, refused := 0, 0
	for seed := range machines {
		r := rand.New(rand.NewPCG(uint64(seed), 21))
		s := randomShape(r, 6)
		m := s.machine(t)
		o := slicecodec.CPUOptions{Mode: modes[seed%len(modes)], ReservedPerNUMA: r.IntN(2)}
		classes := map[string]*resourceapi.DeviceClass{"dra.cpu": {ObjectMeta: metav1.ObjectMeta{Name: "dra.cpu"}}}
		cluster := allocation.New(allocation.DefaultGates(allocation.NewestMinor), classes, publish(m, o), nil)
		var tenants []tenant
		for step := range steps {
			if len(tenants) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(tenants))
				tenants = append(tenants[:i:i], tenants[i+1:]...)
				continue
			}
			var claims []*resourceapi.ResourceClaim
			var held []driver.Record
			for _, other := range tenants {
				claims, held = append(claims, other.claim), append(held, other.record)
			}
			c := randomClaim(r, fmt.Sprintf("claim-%d", step), o)
			results, err := cluster.With(claims...).Allocate(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, c)
			if err != nil {
				t.Fatalf("seed %d (%+v), step %d: %v", seed, s, step, err)
			}
			if results == nil {
				refused++
				continue
			}
			c.Status.Allocation = &results[0]
			record, err := Driver{Offer: o}.Plan(driver.FromAPI(c, slicecodec.DriverCPU, nodeName), m, held)
			if err != nil && takesLast(m, cpusOfAll(t, held), allocatedCPUs(m, o, c)) {
				continue
			}
			if err != nil {
				t.Fatalf("seed %d (%+v, %+v), step %d: what the scheduler gave cannot be given: %v", seed, s, o, step, err)
			}
			requireGiven(t, m, o, c, record, held)
			tenants = append(tenants, tenant{c, record})
			given++
		}
	}
	t.Logf("%d claims given, %d refused by the scheduler", given, refused)
	if given < refused/4 || refused == 0 {
		t.Errorf("%d claims given, %d refused: the machines are not filled, or full all the time", given, refused)
	}
}

func cpusOfAll(t *testing.T, held []driver.Record) cpuset.CPUSet {
	t.Helper()
	taken, err := takenBy(held)
	if err != nil {
		t.Fatal(err)
	}
	return taken.cpus
}

// allocatedCPUs is how many CPUs a claim consumes.
func allocatedCPUs(m *model.Machine, o slicecodec.CPUOptions, c *resourceapi.ResourceClaim) int {
	n := 0
	for _, r := range c.Status.Allocation.Devices.Results {
		if q, ok := r.ConsumedCapacity[slicecodec.CapacityCPU]; ok {
			n += int(q.Value())
		} else {
			n += slicecodec.FindCPUDevice(m, o, r.Device).CPUs.Size()
		}
	}
	return n
}

// requireGiven compares a record with what was consumed.
func requireGiven(t *testing.T, m *model.Machine, o slicecodec.CPUOptions, c *resourceapi.ResourceClaim, r driver.Record, held []driver.Record) {
	t.Helper()
	taken, err := takenBy(held)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := plansOf(r)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range c.Status.Allocation.Devices.Results {
		device := slicecodec.FindCPUDevice(m, o, result.Device)
		cpus := parse(t, plans[i].CPUs)
		want := int64(device.CPUs.Size())
		if q, ok := result.ConsumedCapacity[slicecodec.CapacityCPU]; ok {
			want = q.Value()
		}
		if int64(cpus.Size()) != want || !cpus.IsSubsetOf(device.CPUs) || !cpus.Intersection(taken.cpus).IsEmpty() {
			t.Fatalf("%s: got CPUs %s, want %d of %s that are not of %s", result.Device, cpus, want, device.CPUs, taken.cpus)
		}
		taken.cpus = taken.cpus.Union(cpus)
		pages := map[int64]int64{}
		for _, h := range plans[i].Hugepages {
			here := pool{h.Node, h.PageBytes}
			taken.pages[here] += h.Bytes
			pages[h.PageBytes] += h.Bytes
			if taken.pages[here] > slicecodec.HugepagesOf(m, []int{h.Node}, h.PageBytes) {
				t.Fatalf("node %d gives more huge pages than it has", h.Node)
			}
			if mems := parse(t, plans[i].Mems); !mems.Contains(h.Node) {
				t.Fatalf("%s: huge pages of node %d, and memory of %s", result.Device, h.Node, mems)
			}
		}
		for name, size := range slicecodec.HugepageCapacities() {
			q := result.ConsumedCapacity[resourceapi.QualifiedName(name)]
			if pages[size] != q.Value() || q.Value()%size != 0 {
				t.Fatalf("%s: got %d bytes of %s, consumed are %s", result.Device, pages[size], name, &q)
			}
		}
		for _, node := range parse(t, plans[i].Mems).List() {
			if !hasMemory(*m.NUMANode(node)) {
				t.Fatalf("%s: pinned to node %d, which has no memory", result.Device, node)
			}
		}
	}
}

// The same for many more machines and steps, with the scheduler's rounding but
// not its search: a claim of n CPUs of a device is refused only where the device
// has not as many left, and never gets a CPU of another.
func TestPlanSequences(t *testing.T) {
	machines, steps := 100, 1000
	if testing.Short() {
		machines, steps = 10, 100
	}
	for seed := range machines {
		r := rand.New(rand.NewPCG(uint64(seed), 22))
		s := randomShape(r, 3)
		m := s.machine(t)
		d := Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(r.IntN(4)), ReservedPerNUMA: r.IntN(3)}}
		if seed%3 == 0 {
			d.Offer.Mode = slicecodec.PerSocket
		}
		devices := slicecodec.CPUDevices(m, d.Offer)
		if len(devices) == 0 {
			continue
		}
		left := map[string]int{}
		for _, device := range devices {
			left[device.Name] = device.CPUs.Size()
		}
		var held []driver.Record
		for step := range steps {
			if len(held) > 0 && r.IntN(5) < 2 {
				i := r.IntN(len(held))
				left[held[i].Devices[0].Device] += cpusOf(t, held[i]).Size()
				held = append(held[:i:i], held[i+1:]...)
				continue
			}
			device := devices[r.IntN(len(devices))]
			n := 1 + r.IntN(device.CPUs.Size())
			record, err := d.Plan(claim(fmt.Sprintf("claim-%d", step), device.Name, n), m, held)
			if fits := left[device.Name] >= n && !takesLast(m, cpusOfAll(t, held), n); fits != (err == nil) {
				t.Fatalf("seed %d (%+v), step %d: %d CPUs of %s, which has %d left: %v", seed, s, step, n, &device, left[device.Name], err)
			}
			if err != nil {
				continue
			}
			if got := cpusOf(t, record); got.Size() != n || !got.IsSubsetOf(device.CPUs) {
				t.Fatalf("seed %d (%+v), step %d: got %s, want %d of %s", seed, s, step, got, n, device.CPUs)
			}
			left[device.Name] -= n
			held = append(held, record)
		}
		taken, err := takenBy(held)
		sum := 0
		for _, record := range held {
			sum += cpusOf(t, record).Size()
		}
		if err != nil || taken.cpus.Size() != sum {
			t.Fatalf("seed %d (%+v): %d CPUs given, %d different ones: %v", seed, s, sum, taken.cpus.Size(), err)
		}
		for _, device := range devices {
			_, err := d.Plan(claim("last", device.Name, device.CPUs.Size()), m, nil)
			if err != nil && !takesLast(m, cpuset.New(), device.CPUs.Size()) {
				t.Fatalf("seed %d (%+v): after all claims went: %v", seed, s, err)
			}
		}
	}
}

// The mission's shape: 2 sockets of 56 cores of 2 threads, core ids of each
// package from 0, CPUs 0 and 1 reserved. After one claim of 1 CPU on each node
// every claim of 4 is on its own node, until the node is full.
func TestMissionShape(t *testing.T) {
	m := shape{packages: 2, nodesPer: 1, coresPer: 56, smt: 2, coresPerL3: 56}.machine(t)
	d := Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(0, 1)}}
	var held []driver.Record
	give := func(name, device string, n int) bool {
		r, err := d.Plan(claim(name, device, n), m, held)
		if err == nil {
			held = append(held, r)
		}
		return err == nil
	}
	for node := range 2 {
		device := slicecodec.CPUGroupName(node)
		if !give("one-"+device, device, 1) {
			t.Fatal("a claim of 1 CPU is refused")
		}
		fours := 0
		for ; give(fmt.Sprintf("four-%s-%d", device, fours), device, 4); fours++ {
			if got := cpusOf(t, held[len(held)-1]); !got.IsSubsetOf(m.NUMANode(node).CPUs) {
				t.Fatalf("claim %d of 4 CPUs of node %d got %s", fours, node, got)
			}
		}
		if want := map[int]int{0: 27, 1: 27}[node]; fours != want { // (112-2-1)/4 and (112-1)/4
			t.Errorf("node %d gave %d claims of 4 CPUs, want %d", node, fours, want)
		}
	}
}
