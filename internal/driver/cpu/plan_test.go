// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestPlanRefuses(t *testing.T) {
	m := shape{packages: 2, nodesPer: 1, coresPer: 4, smt: 2, coresPerL3: 4}.machine(t)
	holder, err := Driver{}.Plan(claim("holder", "cpudevnuma000", 6), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*driver.Allocation)) driver.Claim {
		c := claim("wanting", "cpudevnuma000", 2)
		change(&c.Devices[0])
		return c
	}
	config := func(text string) func(*driver.Allocation) {
		return func(a *driver.Allocation) {
			a.Configs = []driver.Config{{Source: "claim", Raw: []byte(text)}}
		}
	}
	for _, test := range []struct {
		name  string
		claim driver.Claim
		want  string
		held  bool // it passes when the other claim goes
	}{
		{"full", claim("wanting", "cpudevnuma000", 4), "wants 4 CPUs of NUMA node 0, of which 2 are free (3,11): 6 of its 8 allocatable CPUs belong to other claims", true},
		{"more than there are", claim("wanting", "cpudevnuma000", 9), "consumed capacity dra.cpu/cpu is 9: NUMA node 0 has 8 allocatable CPUs", false},
		{"no such group", claim("wanting", "cpudevnuma007", 1), "this node has no such device of CPUs", false},
		{"a half", with(func(a *driver.Allocation) {
			a.Consumed["dra.cpu/cpu"] = resource.MustParse("1500m")
		}), "consumed capacity dra.cpu/cpu is 1500m: want a whole number of CPUs, at least 1", false},
		{"the whole group without a size", with(func(a *driver.Allocation) { a.Consumed = nil }), "wants 8 CPUs", true},
		{"an unknown parameter", with(config(`{"apiVersion":"v1alpha1","cpuSet":"1"}`)), `parameters of the claim: cpuSet: Forbidden: no such field: did you mean cpuset?`, false},
		{"CPUs of another claim", with(config(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"0,3"}}`)), `NUMA node 0: names CPUs 0,3, of which 0 are not free here; free are 3,11; 6 of its 8 allocatable CPUs are taken`, true},
		{"a range that would fill the memory", with(config(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"0-2147483647"}}`)),
			`parameters: cpuConfig.cpuset: Invalid value: "0-2147483647": "0-2147483647": want numbers below 65536`, false},
		{"a number beyond all CPUs", with(config(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"1,65536"}}`)), `"65536": want numbers below 65536`, false},
		{"a range backwards", with(config(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"3-1"}}`)), `"3-1": want numbers below 65536 and ascending ranges`, false},
		{"another number of CPUs", with(config(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"3"}}`)), `names CPUs 3, which are 1, and wants 2: want as many`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Driver{}.Plan(test.claim, m, []driver.Record{holder})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if held := driver.OnlyHeld(err); held != test.held {
				t.Errorf("passes when the other claim goes: %t, want %t", held, test.held)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "claim default/wanting, request cpus, device cpudevnuma00") {
				t.Errorf("error %q does not name claim, request and device", err)
			}
		})
	}
}

func TestNamedCPUs(t *testing.T) {
	m := shape{packages: 1, nodesPer: 1, coresPer: 4, smt: 1, coresPerL3: 4}.machine(t)
	c := claim("named", "cpudevnuma000", 2)
	c.Devices[0].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"1,3"}}`)}}
	r, err := Driver{}.Plan(c, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := cpusOf(t, r).String(); got != "1,3" {
		t.Errorf("got %s, want 1,3", got)
	}
}

func TestPins(t *testing.T) {
	m := shape{packages: 2, nodesPer: 1, coresPer: 4, smt: 2, coresPerL3: 4}.machine(t)
	d := Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(0, 8)}}
	one, err := d.Plan(claim("one", "cpudevnuma000", 2), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := d.Plan(claim("two", "cpudevnuma001", 3), m, []driver.Record{one})
	if err != nil {
		t.Fatal(err)
	}
	pin, err := d.Exclusive([]driver.Record{one, two})
	if err != nil {
		t.Fatal(err)
	}
	if pin.CPUs.String() != "1,4-5,9,12" || pin.Mems.String() != "0-1" || strings.Join(pin.Env, " ") != "DRA_CPUSET_one=1,9 DRA_CPUSET_two=4-5,12" {
		t.Errorf("exclusive: got %+v", pin)
	}
	shared, err := d.Shared(m, []driver.Record{one, two})
	if err != nil {
		t.Fatal(err)
	}
	if shared.CPUs.String() != "2-3,6-7,10-11,13-15" || !shared.Mems.IsEmpty() {
		t.Errorf("shared: got %+v", shared)
	}
	if idle, err := (Driver{}).Shared(m, nil); err != nil || !idle.CPUs.IsEmpty() {
		t.Errorf("nothing held, nothing reserved: got %+v, %v; want nobody confined", idle, err)
	}
}

// An empty cpuset means every CPU to the kernel, so the last ones cannot be
// given away without refusing everyone else.
func TestNoCPULeft(t *testing.T) {
	m := shape{packages: 1, nodesPer: 1, coresPer: 2, smt: 1, coresPerL3: 2}.machine(t)
	const want = "claim default/all: it would hold the last CPUs of this node, and leave none to containers without a CPU claim"
	if _, err := (Driver{}).Plan(claim("all", "cpudevnuma000", 2), m, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	// A record of before, when a CPU has gone offline since.
	one, err := Driver{}.Plan(claim("one", "cpudevnuma000", 1), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	less := shape{packages: 1, nodesPer: 1, coresPer: 2, smt: 1, coresPerL3: 2, offline: cpuset.New(1)}.machine(t)
	if _, err := (Driver{}).Shared(less, []driver.Record{one}); err == nil || !strings.Contains(err.Error(), "no CPU is left") {
		t.Errorf("got %v, want a refusal", err)
	}
	// The reserved ones are there for everybody else, at the very end.
	d := Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(1)}}
	if one, err = d.Plan(claim("one", "cpudevnuma000", 1), m, nil); err != nil {
		t.Fatal(err)
	}
	if pin, err := d.Shared(m, []driver.Record{one}); err != nil || pin.CPUs.String() != "1" {
		t.Errorf("got %v, %v, want the reserved CPU", pin, err)
	}
}

// CPUs that are reserved after a claim got them stay the claim's, and no other claim or
// shared container gets one of them.
func TestReservedLaterThanGiven(t *testing.T) {
	m := shape{packages: 1, nodesPer: 1, coresPer: 6, smt: 1, coresPerL3: 6}.machine(t)
	old, err := Driver{}.Plan(with(claim("old", "cpudevnuma000", 2), nil, `{"cpuset": "1-2"}`), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(0, 1)}}
	if pin, err := d.Exclusive([]driver.Record{old}); err != nil || pin.CPUs.String() != "1-2" {
		t.Errorf("the claim has %v, %v; want 1-2", pin.CPUs, err)
	}
	if pin, err := d.Shared(m, []driver.Record{old}); err != nil || pin.CPUs.String() != "3-5" {
		t.Errorf("the others have %v, %v; want 3-5", pin.CPUs, err)
	}
	next, err := d.Plan(claim("next", "cpudevnuma000", 2), m, []driver.Record{old})
	if err != nil {
		t.Fatal(err)
	}
	if got := cpusOf(t, next); !got.IsSubsetOf(cpuset.New(3, 4, 5)) {
		t.Errorf("the next claim has %s, want two of 3-5", got)
	}
}

func TestAdminAccessTakesNothing(t *testing.T) {
	m := shape{packages: 1, nodesPer: 1, coresPer: 2, smt: 1, coresPerL3: 2}.machine(t)
	c := claim("look", "cpudevnuma000", 2)
	c.Devices[0].AdminAccess = true
	r, err := Driver{}.Plan(c, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := Driver{}.Exclusive([]driver.Record{r})
	if err != nil || !pin.CPUs.IsEmpty() || len(pin.Env) > 0 || len(r.Devices[0].Edits.Env) > 0 {
		t.Errorf("got pin %+v, edits %+v, %v; want nothing", pin, r.Devices[0].Edits, err)
	}
}
