// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/model"
)

func TestPlacement(t *testing.T) {
	m := agenttest.TwoNodes(t)
	claimed := agenttest.RecordOf("dra.cpu", "mine", "trainer-uid", "cpudevnuma001")
	claimed.Devices[0].Plan = json.RawMessage(`{"numaNode":1,"cpus":"4-5"}`)
	again := agenttest.RecordOf("dra.cpu", "again", "other-uid", "cpudevnuma001")
	again.Devices[0].Plan = json.RawMessage(`{"numaNode":1,"cpus":"5-6"}`)
	all := agenttest.RecordOf("dra.cpu", "all", "other-uid", "cpudevnuma000")
	all.Devices[0].Plan = json.RawMessage(`{"numaNode":0,"cpus":"0-3,6-7"}`)
	held := []driver.Record{claimed}
	whole := []podclaims.Share{{Record: claimed, Devices: []int{0}}}
	for _, test := range []struct {
		name   string
		shares []podclaims.Share
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
			pin, err := s.pinFor(runtimestate.Running{Container: runtimestate.Container{RequestedCPUs: own}}, test.shares)
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
