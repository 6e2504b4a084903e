// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model"
)

var trainer = runtimestate.Sandbox{UID: "trainer-uid", Namespace: "default", Name: "trainer", Netns: "/run/netns/1"}

func recordOf(driverName, claim string, pod types.UID, devices ...string) driver.Record {
	r := driver.Record{
		Version: 1, Driver: driverName,
		Claim: driver.ClaimRef{UID: types.UID(claim + "-uid"), Namespace: "default", Name: claim},
		Pods:  []driver.PodRef{{UID: pod, Name: strings.TrimSuffix(string(pod), "-uid")}},
	}
	for _, d := range devices {
		r.Devices = append(r.Devices, driver.DeviceRecord{Device: d})
	}
	return r
}

func TestAdmitSandbox(t *testing.T) {
	mine := recordOf("dra.net", "mine", "trainer-uid", "nic0")
	other := recordOf("dra.net", "other", "other-uid", "nic1")
	looks := recordOf("dra.net", "looks", "looks-uid", "nic2")
	looks.Devices[0].AdminAccess = true
	looker := runtimestate.Sandbox{UID: "looks-uid", Namespace: "default", Name: "looker"}
	onHost := trainer
	onHost.Netns = ""
	for _, test := range []struct {
		name    string
		sandbox runtimestate.Sandbox
		facts   *kube.Pod
		want    string // claims, or the refusal
	}{
		{"its own claim", trainer, nil, "mine"},
		{"the watch agrees", trainer, &kube.Pod{Namespace: "default", Claims: []string{"mine"}}, "mine"},
		{"the host's network", onHost, nil, "pod default/trainer uses the host's network, so claim default/mine of dra.net cannot give it an interface: want hostNetwork: false"},
		{"the host's network, where nothing moves", looker, nil, "looks"},
		{"another pod's claim", trainer, &kube.Pod{Namespace: "default", Claims: []string{"mine", "other"}},
			"claim default/other of dra.net is held by pod other, so pod default/trainer cannot have it: want a claim per pod, as resourceClaimTemplateName gives"},
		{"a claim of that name elsewhere", trainer, &kube.Pod{Namespace: "elsewhere", Claims: []string{"other"}}, "mine"},
		{"a pod without claims", runtimestate.Sandbox{UID: "x", Netns: "/run/netns/2"}, nil, ""},
		{"a pod of the host without claims", runtimestate.Sandbox{UID: "x"}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := admitSandbox(test.sandbox, []driver.Record{mine, other, looks}, test.facts, (&agenttest.FakeDriver{}).Moves)
			words := []string{}
			for _, r := range got {
				words = append(words, r.Claim.Name)
			}
			text := strings.Join(words, " ")
			if err != nil {
				text = err.Error()
			}
			if text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}

func TestSharesOf(t *testing.T) {
	two := recordOf("dra.cpu", "two", "trainer-uid", "cpudevnuma000", "cpudevnuma001")
	stranger := recordOf("dra.cpu", "stranger", "other-uid", "cpudevnuma000")
	podLevel := &kube.Pod{Namespace: "default", Claims: []string{"two"}, Named: map[string]bool{}}
	named := &kube.Pod{Namespace: "default", Claims: []string{"two"}, Named: map[string]bool{"two": true}}
	extended := &kube.Pod{Namespace: "default", Named: map[string]bool{}} // not in spec.resourceClaims
	for _, test := range []struct {
		name      string
		container runtimestate.Container
		facts     *kube.Pod
		want      string
	}{
		{"names one request", runtimestate.Container{CDI: []string{cdi.ID(two, 1)}}, named, "two[1]"},
		{"names the claim", runtimestate.Container{CDI: []string{cdi.ID(two, 0), cdi.ID(two, 1)}}, named, "two[0 1]"},
		{"a runtime that shows the environment only", runtimestate.Container{Env: []string{"A=1", cdi.Marker(two, 0)}}, named, "two[0]"},
		{"needs no watch where it names the claim", runtimestate.Container{CDI: []string{cdi.ID(two, 1)}}, nil, "two[1]"},
		{"another container names it", runtimestate.Container{}, named, ""},
		{"nobody names it", runtimestate.Container{}, podLevel, "two[0 1] at pod level"},
		{"an extended resource belongs to its container", runtimestate.Container{}, extended, ""},
		{"the pod is not known yet", runtimestate.Container{}, nil, "pod default/trainer holds claim default/two of dra.cpu, and the API watch has not shown yet which of its containers name it"},
		{"another pod's claim", runtimestate.Container{CDI: []string{cdi.ID(stranger, 0)}}, named,
			"claim default/stranger of dra.cpu is held by pod other, so pod default/trainer cannot have it: want a claim per pod, as resourceClaimTemplateName gives"},
	} {
		t.Run(test.name, func(t *testing.T) {
			shares, err := sharesOf(trainer, test.container, []driver.Record{stranger, two}, test.facts)
			var words []string
			for _, s := range shares {
				word := fmt.Sprint(s.record.Claim.Name, s.devices)
				if s.podLevel {
					word += " at pod level"
				}
				words = append(words, word)
			}
			text := strings.Join(words, " ")
			if err != nil {
				text = err.Error()
			}
			if text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}

func TestAdjustAddsOnlyWhatIsMissing(t *testing.T) {
	nic := recordOf("dra.net", "nic", "trainer-uid", "nic0")
	shares := []share{{record: nic, devices: []int{0}, podLevel: true}}
	pin := driver.Pin{CPUs: cpuset.New(2, 3), Mems: cpuset.New(0), Env: []string{"DRA_CPUSET_x=2-3"}}
	fresh := runtimestate.Container{Env: []string{"HOME=/"}}
	none := ""
	first := adjust(fresh, shares, pin)
	want := change{
		Env: []string{"PLUMBLINE_CLAIM_nic-uid_0=dra.net/nic0", "DRA_CPUSET_x=2-3"},
		CDI: []string{"dra.net/claim=nic-uid-nic0"}, CPUs: "2-3", Mems: "0", RequestedCPUs: &none,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first agent (-want +got):\n%s", diff)
	}
	// The runtime shows the second agent what the first has added; setting
	// anything twice would fail the container.
	seen := runtimestate.Container{Env: append(fresh.Env, first.Env...), CPUs: first.CPUs, Mems: first.Mems}
	if second := adjust(seen, shares, pin); adjustmentOf(second) != nil {
		t.Errorf("the second agent adds %+v, want nothing", second)
	}
}

func TestPlacement(t *testing.T) {
	m := twoNodes(t)
	claimed := recordOf("dra.cpu", "mine", "trainer-uid", "cpudevnuma001")
	claimed.Devices[0].Plan = json.RawMessage(`{"numaNode":1,"cpus":"4-5"}`)
	again := recordOf("dra.cpu", "again", "other-uid", "cpudevnuma001")
	again.Devices[0].Plan = json.RawMessage(`{"numaNode":1,"cpus":"5-6"}`)
	all := recordOf("dra.cpu", "all", "other-uid", "cpudevnuma000")
	all.Devices[0].Plan = json.RawMessage(`{"numaNode":0,"cpus":"0-3,6-7"}`)
	held := []driver.Record{claimed}
	whole := []share{{record: claimed, devices: []int{0}}}
	for _, test := range []struct {
		name   string
		shares []share
		held   []driver.Record
		own    string
		want   string
	}{
		{"its own CPUs", whole, held, "", "4-5 1 DRA_CPUSET_mine-uid=4-5"},
		{"its own CPUs, not what another plugin says", whole, held, "0-1", "4-5 1 DRA_CPUSET_mine-uid=4-5"},
		{"the rest for the others", nil, held, "", "0-3,6-7  "},
		{"nobody confined without claims", nil, nil, "", "  "},
		{"another plugin's set is narrowed", nil, held, "3-4", "3  "},
		{"and left where it is out of the way", nil, held, "2-3", "2-3  "},
		{"and moved where nothing of it is left", nil, held, "4-5", "0-3,6-7  "},
		{"and never widened", nil, nil, "2-3", "2-3  "},
		{
			"not on CPUs that two claims have", whole, []driver.Record{claimed, again}, "",
			"the claim is quarantined: claim default/mine has CPUs 4-5 and claim default/again has CPUs 5-6, so 5 would be used by both: " +
				"want one of the two claims' pods deleted",
		},
		{
			"nowhere left", nil, []driver.Record{claimed, all}, "",
			"no CPU is left for containers without a CPU claim: claims hold 0-7",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			own, err := cpuset.Parse(test.own)
			if err != nil {
				t.Fatal(err)
			}
			s := placement{preparer: &claims.Preparer{Driver: claims.Of(cpu.Driver{}), Machine: func() *model.Machine { return m }}}
			s.add(test.held)
			pin, err := pinFor(s, runtimestate.Running{Container: runtimestate.Container{RequestedCPUs: own}}, test.shares)
			got := fmt.Sprint(pin.CPUs, " ", pin.Mems, " ", strings.Join(pin.Env, " "))
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func twoNodes(t testing.TB) *model.Machine {
	t.Helper()
	parts := model.Machine{NUMANodes: []model.NUMANode{{ID: 0, CPUs: cpuset.New(0, 1, 2, 3)}, {ID: 1, CPUs: cpuset.New(4, 5, 6, 7)}}}
	for id := range 8 {
		node := id / 4
		parts.CPUs = append(parts.CPUs, model.CPU{ID: id, Online: true, NUMANode: &node, Core: &model.CoreID{Package: node, Core: id % 4}, Siblings: cpuset.New(id)})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
