// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"fmt"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

var trainer = runtimestate.Sandbox{UID: "trainer-uid", Namespace: "default", Name: "trainer", Netns: "/run/netns/1"}

func TestAdmitSandbox(t *testing.T) {
	mine := agenttest.RecordOf("dra.net", "mine", "trainer-uid", "nic0")
	other := agenttest.RecordOf("dra.net", "other", "other-uid", "nic1")
	looks := agenttest.RecordOf("dra.net", "looks", "looks-uid", "nic2")
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
			got, err := AdmitSandbox(test.sandbox, []driver.Record{mine, other, looks}, test.facts, (&agenttest.FakeDriver{}).Moves)
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
	two := agenttest.RecordOf("dra.cpu", "two", "trainer-uid", "cpudevnuma000", "cpudevnuma001")
	stranger := agenttest.RecordOf("dra.cpu", "stranger", "other-uid", "cpudevnuma000")
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
			shares, err := SharesOf(trainer, test.container, []driver.Record{stranger, two}, test.facts)
			var words []string
			for _, s := range shares {
				word := fmt.Sprint(s.Record.Claim.Name, s.Devices)
				if s.PodLevel {
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
