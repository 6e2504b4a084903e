// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest_test

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func TestVeth(t *testing.T) {
	a, b := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, a, "left", b, "right")
	hosttest.Veth(t, a, "one", a, "two")
	if out := a.Run(t, "ip -o link show"); strings.Count(out, "\n") != 4 || strings.Contains(out, "right") {
		t.Errorf("namespace a has\n%s", out)
	}
	if out := b.Run(t, "ip -o link show type veth"); !strings.Contains(out, "right@") || strings.Contains(out, "UP") {
		t.Errorf("namespace b has\n%s", out)
	}
}

func TestNeedLink(t *testing.T) {
	hosttest.NeedLink(t, "veth") // this test's own tools
	if hosttest.OnGuest() {
		for _, kind := range []string{"dummy", "vlan", "ipvlan", "macvlan", "vrf", "bond", "bridge"} {
			hosttest.NeedLink(t, kind)
		}
		return
	}
	goes := true
	t.Run("none", func(t *testing.T) {
		defer func() { goes = !t.Skipped() }()
		hosttest.NeedLink(t, "nosuchkind")
	})
	if goes {
		t.Error("a kind that no kernel has was not missed")
	}
}
