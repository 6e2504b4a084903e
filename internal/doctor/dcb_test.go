// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/host/dcb"
)

// TestDCB: what drivers tell by netlink is compared as what files say is. Two NICs are alike
// in all, or differ in what is found.
func TestDCB(t *testing.T) {
	three, both := uint8(1<<3), uint8(1<<3|1<<4)
	told := dcb.Settings{FlowControl: &three, DSCP: []dcb.Priority{{DSCP: 48, Priority: 6}, {DSCP: 26, Priority: 3}}}
	for name, tt := range map[string]struct {
		eth2 dcb.Settings
		err  error
		want []string
	}{
		"alike": {told, nil, []string{"ok 15b3:0000: dscp-priorities 26:3 48:6 on mlx5_0, mlx5_1", "ok 15b3:0000: pfc priorities 3 on mlx5_0, mlx5_1"}},
		"another order": {
			dcb.Settings{FlowControl: &three, DSCP: []dcb.Priority{{DSCP: 26, Priority: 3}, {DSCP: 48, Priority: 6}}}, nil,
			[]string{"ok 15b3:0000: dscp-priorities 26:3 48:6 on mlx5_0, mlx5_1", "ok 15b3:0000: pfc priorities 3 on mlx5_0, mlx5_1"},
		},
		"another priority": {
			dcb.Settings{FlowControl: &both, DSCP: []dcb.Priority{{DSCP: 26, Priority: 4}}}, nil,
			[]string{
				"wrong 15b3:0000: dscp-priorities 26:3 48:6 on mlx5_0; dscp-priorities 26:4 on mlx5_1",
				"wrong 15b3:0000: pfc priorities 3 on mlx5_0; pfc priorities 3,4 on mlx5_1",
			},
		},
		"nothing set": {
			dcb.Settings{FlowControl: new(uint8)}, nil,
			[]string{
				"wrong 15b3:0000: dscp-priorities 26:3 48:6 on mlx5_0; dscp-priorities none on mlx5_1",
				"wrong 15b3:0000: pfc none on mlx5_1; pfc priorities 3 on mlx5_0",
			},
		},
		"a driver that says nothing of them": {
			dcb.Settings{}, nil,
			[]string{"ok 15b3:0000: dscp-priorities 26:3 48:6 on mlx5_0", "ok 15b3:0000: pfc priorities 3 on mlx5_0"},
		},
		"not supported": {
			dcb.Settings{}, errors.New("not supported"),
			[]string{
				"ok 15b3:0000: dscp-priorities 26:3 48:6 on mlx5_0", "ok 15b3:0000: pfc priorities 3 on mlx5_0",
				"unknown 0000:07:00.0 eth2 mlx5_1: not supported",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := hostWith(t, nil, nil)
			h.DCB = func(ifname string) (dcb.Settings, error) {
				if ifname == "eth1" {
					return told, nil
				}
				return tt.eth2, tt.err
			}
			if diff := cmp.Diff(tt.want, dcbFindings(h)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// dcbFindings are those that the drivers' answers led to.
func dcbFindings(h Host) []string {
	var all []string
	for _, f := range Run(h) {
		if f.Check == "qos" && len(f.Source) > 0 && f.Source[0] != '/' {
			all = append(all, string(f.Verdict)+" "+f.Subject+": "+f.Found)
		}
	}
	slices.Sort(all)
	return all
}

// TestDCBInProfiles: a host that was set up in another way differs from its kind.
func TestDCBInProfiles(t *testing.T) {
	profile := func(enabled uint8) hosts.HostProfile {
		h := hostWith(t, nil, nil)
		h.DCB = func(string) (dcb.Settings, error) { return dcb.Settings{FlowControl: &enabled}, nil }
		return Profile(h)
	}
	var wrong []string
	for _, f := range Expect(profile(1<<3), profile(1<<4)) {
		if f.Verdict == hosts.Wrong {
			wrong = append(wrong, f.Found+", want "+f.Want+", by "+f.Source)
		}
	}
	if diff := cmp.Diff([]string{"pfc priorities 4, want pfc priorities 3, by dcb pfc show dev INTERFACE"}, wrong); diff != "" {
		t.Error(diff)
	}
}
