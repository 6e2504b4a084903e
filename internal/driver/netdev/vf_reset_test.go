// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// vfClaim plans, stages and attaches a claim of its own name.
func (l *lab) vfClaim(t *testing.T, m *model.Machine, name, parameters string, pod *hosttest.Namespace, device string) driver.Record {
	t.Helper()
	c := claim(parameters, device)
	c.UID, c.Name, c.Pods[0].UID = types.UID(name), name, types.UID(name)
	r, err := l.driver.Plan(c, m, nil)
	if err == nil {
		r, err = l.driver.Stage(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.attach(t, r, pod)
	return r
}

// A physical function that was reset while a pod had its virtual one tells its defaults:
// what the host had comes back all the same.
func TestPhysicalFunctionIsReset(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		l, pod := newLab(t), hosttest.NewNamespace(t)
		pf := l.newPF(t, inUse, pod)
		before, was := look(t, l.host), pf.read(t).VFs
		r := l.vfClaim(t, l.withVFs(t, nil), "a", vfParameters, pod, vfZero)
		pf.edit(t, reset)
		was[1] = pf.read(t).VFs[1] // which is nobody's to put back
		l.undo(t, r, pod)
		pf.expect(t, "after a reset", was)
		expect(t, "the host", before, l.host)
	}
}

// A function that the reset took from its pod has its settings again before the pod has it.
func TestResetVFIsSetBeforeThePodHasIt(t *testing.T) {
	l, pod := newLab(t), hosttest.NewNamespace(t)
	pf := l.newPF(t, true, pod)
	r := l.vfClaim(t, l.withVFs(t, nil), "a", vfParameters, pod, vfZero)
	inside := pf.read(t).VFs
	pod.Run(t, fmt.Sprintf("ip link set nic0 down address 02:00:00:00:00:00 netns /proc/%d/fd/%d", pid(), l.host.Fd()))
	pf.edit(t, reset)
	inside[1] = pf.read(t).VFs[1]
	pf.edit(t, func(s *pfState) { s.Changes = 0 })
	if _, err := l.driver.Attach(t.Context(), r, pod.Path()); err == nil || l.nicIn(t, pod, *setVF.MAC) != nil {
		t.Errorf("in the pod without its settings: %v", err)
	}
	pf.edit(t, func(s *pfState) { s.Changes = -1 })
	l.attach(t, r, pod)
	pf.expect(t, "attached again", inside)
}

// The settings follow a function whose number is another by now, and those of the one
// that has its number are left alone.
func TestVFHasAnotherNumber(t *testing.T) {
	l, pod := newLab(t), hosttest.NewNamespace(t)
	pf := l.newPF(t, true, pod)
	r := l.vfClaim(t, l.withVFs(t, nil), "a", vfParameters, pod, vfZero)
	pf.edit(t, func(s *pfState) { s.VFs[0].Number, s.VFs[1].Number = 1, 0 })
	was := l.originalVFs(t)
	was[0].Number, was[1].Number = 1, 0
	l.driver = l.newDriver(t)
	l.undo(t, r, pod)
	pf.expect(t, "numbered anew", was)
}

// originalVFs are those of a new physical function.
func (l *lab) originalVFs(t *testing.T) []rtnl.VF {
	t.Helper()
	o := lab{host: l.host}
	return o.newPF(t, true).read(t).VFs
}

// Without the physical function's interface all else of the NIC comes back, the error
// says what does not, and it does once the interface is there again.
func TestPhysicalFunctionIsAway(t *testing.T) {
	l, pod := newLab(t), hosttest.NewNamespace(t)
	// One like igb would have the NIC keep the pod's MAC, which a veth pair cannot.
	pf := l.newPF(t, false, pod)
	l.host.Run(t, "ip address add 10.44.0.2/24 dev nic0\nip link set nic0 alias kept up")
	before, was, features := look(t, l.host), pf.read(t).VFs, l.featuresOf(t, "nic0")
	parameters := `{"ethtool": {"features": {"tso": false}}, ` + vfParameters[1:]
	r := l.vfClaim(t, l.withVFs(t, nil), "a", parameters, pod, vfZero)
	l.host.Run(t, fmt.Sprintf("ip link set nic2 netns /proc/%d/fd/%d", pid(), l.fabric.Fd()))
	for _, undo := range []func() error{
		func() error { return l.driver.Detach(t.Context(), r, pod.Path()) }, func() error { return l.driver.Unstage(t.Context(), r) },
	} {
		const want = "the host's network namespace has no interface of its physical function 0000:01:00.0 (nic2)"
		if err := undo(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if nic := l.nicIn(t, l.host, "02:00:00:00:00:00"); nic == nil || nic.Name != "nic0" || !nic.Up {
		t.Errorf("the NIC is %v", nic)
	} else if diff := cmp.Diff(features, l.featuresOf(t, "nic0")); diff != "" {
		t.Errorf("features (-before +after):\n%s", diff)
	}
	l.fabric.Run(t, fmt.Sprintf("ip link set nic2 netns /proc/%d/fd/%d", pid(), l.host.Fd()))
	l.undo(t, r, pod)
	pf.expect(t, "with the interface", was)
	expect(t, "the host", before, l.host)
}

func (l *lab) featuresOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	features, err := l.driver.host.Ethtool.Features(name)
	if err != nil {
		t.Fatal(err)
	}
	return ethtool.Snapshot(features)
}

// With the physical function all that was set of the virtual one has gone.
func TestPhysicalFunctionIsGone(t *testing.T) {
	l, pod := newLab(t), hosttest.NewNamespace(t)
	l.newPF(t, true, pod)
	r := l.vfClaim(t, l.withVFs(t, nil), "a", vfParameters, pod, vfZero)
	pod.Run(t, "ip link delete nic0")
	l.host.Run(t, "ip link delete nic2")
	l.driver.sys, l.driver.host.Sys = fstest.MapFS{}, fstest.MapFS{}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); !driver.OnlyGone(err) {
		t.Errorf("detach: %v, want one that says it is gone", err)
	}
	if err := l.driver.Unstage(t.Context(), r); err != nil {
		t.Errorf("unstage: %v", err)
	}
}

// Two claims of one physical function do not reach each other's virtual one.
func TestTwoClaimsOfOnePhysicalFunction(t *testing.T) {
	l, first, second := newLab(t), hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	pf := l.newPF(t, true, first, second)
	before, was := look(t, l.host), pf.read(t).VFs
	m := l.withVFs(t, nil)
	a := l.vfClaim(t, m, "a", vfParameters, first, vfZero)
	b := l.vfClaim(t, m, "b", `{"interface": {"vf": {"vlan": 7}}}`, second, vfOne)
	ofB := rtnl.VF{Number: 1, VFSettings: rtnl.VFSettings{MAC: ptr(rtnl.NoMAC), VLAN: &rtnl.VFVLAN{ID: 7, Protocol: 0x8100}}}
	pf.expect(t, "both", []rtnl.VF{{Number: 0, VFSettings: setVF}, ofB})
	l.undo(t, a, first)
	pf.expect(t, "the second", []rtnl.VF{was[0], ofB})
	a = l.vfClaim(t, m, "a", vfParameters, first, vfZero)
	var wait sync.WaitGroup
	wait.Go(func() { l.undo(t, a, first) })
	wait.Go(func() { l.undo(t, b, second) })
	wait.Wait()
	pf.expect(t, "neither", was)
	expect(t, "the host", before, l.host)
}

// A claim's null and empty settings leave the class's as they are, which no policy looks at.
func TestClaimCannotUndoItsClass(t *testing.T) {
	l := newLab(t)
	l.newPF(t, true)
	for _, parameters := range []string{`{"interface": {"vf": {"vlan": null, "trust": null}}}`, `{"interface": {"vf": {}}}`, `{"interface": {"vf": null}}`, `{"interface": null}`} {
		c := claim(`{"interface": {"vf": {"vlan": 7, "trust": false, "spoofCheck": true}}}`, vfZero)
		c.Devices[0].Configs[0].Source = "class"
		c.Devices[0].Configs = append(c.Devices[0].Configs, driver.Config{Source: "claim", Raw: []byte(parameters)})
		r, err := l.driver.Plan(c, l.withVFs(t, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := ReadPlan(r.Devices[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, want := plan.Stage.VF.String(), "vlan 7 qos 0 proto 0x8100 spoofchk true trust false"; got != want {
			t.Errorf("%s: %s, want %s", parameters, got, want)
		}
	}
}

// Whatever the functions are, whatever a claim sets of them and whatever befalls the
// card and the pod: afterwards they are what they were.
func TestAnyVFComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("the physical function's driver is a stand-in: the same on every kernel")
	}
	for seed := range rounds() {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			l, pod := newLab(t), hosttest.NewNamespace(t)
			pf := l.newPF(t, random.IntN(2) == 0, pod)
			pf.edit(t, func(s *pfState) {
				for i := range s.VFs {
					s.VFs[i].VFSettings = randomVF(random, i)
				}
			})
			before, was := look(t, l.host), pf.read(t).VFs
			devices := []string{vfZero, vfOne}[:1+random.IntN(2)]
			request := claim("", devices...)
			for i := range devices {
				request.Devices[i].Configs = []driver.Config{{Source: "claim", Raw: randomVFParameters(t, random, i, was[i].VFSettings)}}
			}
			r, err := l.driver.Plan(request, l.withVFs(t, nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			busy := func() { pf.edit(t, func(s *pfState) { s.Busy = random.IntN(3) }) }
			busy()
			if r, err = l.driver.Stage(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			busy()
			statuses := l.attach(t, r, pod)
			staged := pf.read(t).VFs
			l.attach(t, r, pod)
			pf.expect(t, "attached again", staged)
			for _, s := range statuses {
				pod.Run(t, randomMeddling(random, s.InterfaceName))
			}
			if random.IntN(2) == 0 {
				pf.edit(t, reset)
				was = afterReset(t, r, was, pf.read(t).VFs)
			}
			busy()
			for range 2 {
				l.undo(t, r, pod)
				pf.expect(t, "undone", was)
				expect(t, "the host", before, l.host)
			}
			if t.Failed() {
				t.Logf("parameters: %s", request.Devices[0].Configs[0].Raw)
			}
		})
	}
}

// afterReset is what comes back after a reset: what a claim changes, and nothing else.
func afterReset(t *testing.T, r driver.Record, was, now []rtnl.VF) []rtnl.VF {
	t.Helper()
	for i, d := range r.Devices {
		plan, err := ReadPlan(d)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Host.VF == nil {
			continue
		}
		back, s := plan.Host.VF.Settings, &now[i].VFSettings
		if back.MAC != nil {
			s.MAC = was[i].MAC
		}
		if back.VLAN != nil {
			s.VLAN = was[i].VLAN
		}
		if back.Rate != nil {
			s.Rate = was[i].Rate
		}
		if back.SpoofCheck != nil {
			s.SpoofCheck = was[i].SpoofCheck
		}
		if back.Trust != nil {
			s.Trust = was[i].Trust
		}
	}
	return now
}

// randomVF is a function whose driver may tell some settings only.
func randomVF(r *rand.Rand, function int) rtnl.VFSettings {
	own := fmt.Sprintf("02:00:00:00:00:0%d", function)
	s := rtnl.VFSettings{MAC: &own, VLAN: &rtnl.VFVLAN{ID: uint32(r.IntN(4095)), QoS: uint32(r.IntN(8)), Protocol: 0x8100}}
	if r.IntN(2) == 0 {
		s.Rate = &rtnl.VFRate{Min: uint32(r.IntN(10)), Max: uint32(10 + r.IntN(1000))}
	}
	if r.IntN(2) == 0 {
		s.SpoofCheck = ptr(r.IntN(2) == 0)
	}
	if r.IntN(2) == 0 {
		s.Trust = ptr(r.IntN(2) == 0)
	}
	return s
}

// randomVFParameters ask for some of the settings that a function has.
func randomVFParameters(t *testing.T, r *rand.Rand, function int, has rtnl.VFSettings) []byte {
	t.Helper()
	vf := map[string]any{}
	some := r.IntN(4) // none of them at times, as of a claim without a word of the function
	if some > 0 {
		vf["vlan"] = r.IntN(4095)
	}
	if some > 1 && has.Rate != nil {
		vf["maxTxRate"] = has.Rate.Min + uint32(r.IntN(1000))
	}
	if some > 1 && has.SpoofCheck != nil {
		vf["spoofCheck"] = r.IntN(2) == 0
	}
	if some > 2 && has.Trust != nil {
		vf["trust"] = r.IntN(2) == 0
	}
	i := map[string]any{"vf": vf, "mtu": 1280 + r.IntN(200)}
	if r.IntN(2) == 0 {
		i["hardwareAddr"] = fmt.Sprintf("02:00:00:00:aa:0%d", function)
	}
	text, err := json.Marshal(map[string]any{"interface": i})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
