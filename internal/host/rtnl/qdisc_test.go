// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// tc runs lines of tc, and skips the test where the kernel lacks what they ask.
func tc(t *testing.T, ns *hosttest.Namespace, commands string) {
	t.Helper()
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var out []byte
		var err error
		ns.Do(t, func() error {
			out, err = exec.CommandContext(t.Context(), "tc", strings.Fields(line)...).CombinedOutput()
			return nil
		})
		missing := strings.Contains(string(out), "is unknown") || strings.Contains(string(out), "Unknown") ||
			strings.Contains(string(out), "not found")
		switch {
		case err == nil:
		case missing && !hosttest.OnGuest():
			t.Skipf("tc %s: %s: this kernel lacks it", line, strings.TrimSpace(string(out)))
		default:
			t.Fatalf("tc %s: %v: %s", line, err, out)
		}
	}
}

func TestQueueing(t *testing.T) {
	tests := []struct {
		name, commands string
		want           QdiscVerdict
		reason         string
	}{
		{"nothing", "", QdiscDefault, ""},
		{"pfifo", "qdisc add dev nic0 root handle 7: pfifo limit 77", QdiscRestorable, ""},
		{"bfifo", "qdisc add dev nic0 root handle 7: bfifo limit 7777", QdiscRestorable, ""},
		{"pfifo_fast", "qdisc add dev nic0 root handle 7: pfifo_fast", QdiscRestorable, ""},
		{"noqueue", "qdisc add dev nic0 root noqueue", QdiscRestorable, ""},
		{"fq", "qdisc add dev nic0 root handle 7: fq limit 5000 flow_limit 50 maxrate 10mbit nopacing", QdiscRestorable, ""},
		{"fq_codel", "qdisc add dev nic0 root handle 7: fq_codel limit 999 flows 64 target 3ms interval 40ms noecn", QdiscRestorable, ""},
		{"sfq", "qdisc add dev nic0 root handle 7: sfq perturb 10 limit 100", QdiscRestorable, ""},
		{"mq", "qdisc add dev nic0 root handle 7: mq", QdiscRestorable, ""},
		{"mq with a child", "qdisc add dev nic0 root handle 7: mq\n qdisc add dev nic0 parent 7:1 handle 8: pfifo", QdiscLost, "pfifo 8:"},
		{"clsact", "qdisc add dev nic0 clsact", QdiscRestorable, ""},
		{"ingress", "qdisc add dev nic0 ingress", QdiscRestorable, ""},
		{"block", "qdisc add dev nic0 ingress_block 22 clsact", QdiscLost, "block"},
		{"tbf", "qdisc add dev nic0 root handle 7: tbf rate 1mbit burst 10kb latency 70ms", QdiscLost, "tbf 7:"},
		{"prio", "qdisc add dev nic0 root handle 7: prio", QdiscLost, "prio 7:"},
		{"htb", "qdisc add dev nic0 root handle 7: htb", QdiscLost, "htb 7:"},
		{"filter", "qdisc add dev nic0 clsact\n filter add dev nic0 ingress protocol ip matchall action drop", QdiscLost, "ingress matchall"},
		{
			"filter of the root",
			"qdisc add dev nic0 root handle 7: fq_codel\n filter add dev nic0 parent 7: protocol ip matchall action drop", QdiscLost, "matchall",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			host, pod := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
			host.Run(t, "ip link add nic0 numtxqueues 2 type veth peer name nic1\nip link set nic0 up")
			tc(t, host, test.commands)
			conn, podConn := dialIn(t, host), dialIn(t, pod)
			nic := indexOf(t, conn, "nic0")
			before, err := conn.Queueing(nic)
			if err != nil {
				t.Fatal(err)
			}
			if before.Verdict != test.want || !strings.Contains(before.Reason, test.reason) {
				t.Errorf("verdict %s (%s), want %s (%s)", before.Verdict, before.Reason, test.want, test.reason)
			}
			if before.Verdict == QdiscLost {
				return
			}
			text, err := json.Marshal(before)
			if err != nil {
				t.Fatal(err)
			}
			var journaled Queueing
			if err := json.Unmarshal(text, &journaled); err != nil {
				t.Fatal(err)
			}
			shown := host.Run(t, "tc qdisc show dev nic0")
			if err := conn.Move(nic, pod.Fd(), Change{}); err != nil {
				t.Fatal(err)
			}
			up := true
			err = errors.Join(podConn.Move(indexOf(t, podConn, "nic0"), host.Fd(), Change{}), conn.Set(nic, Change{Up: &up}))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := conn.RestoreQueueing(nic, journaled.Root, journaled.Ingress); err != nil {
					t.Fatal(err)
				}
			}
			if got := host.Run(t, "tc qdisc show dev nic0"); got != shown {
				t.Errorf("restored\n%swant\n%s", got, shown)
			}
			after, err := conn.Queueing(nic)
			if err != nil || after.Verdict != before.Verdict || len(after.Filters) != 0 {
				t.Errorf("after the restore %+v, %v", after, err)
			}
		})
	}
}

// What the kernel makes of a time that it told is what it told.
func TestCodelTime(t *testing.T) {
	kernel := func(us uint32) uint32 { // include/net/codel.h: set, then told
		kept := uint64(us) * 1000 >> 10
		return uint32(kept << 10 / 1000)
	}
	for us := range uint32(200000) {
		told := kernel(us)
		if again := kernel(codelTime(told)); again != told {
			t.Fatalf("%d us are told as %d, and put back as %d", us, told, again)
		}
	}
	if got := kernel(codelTime(kernel(3000))); got != 2999 {
		t.Errorf("3 ms come back as %d us", got)
	}
}

func TestSettable(t *testing.T) {
	body := append(append([]byte{}, tcHeader(7, 0x70000, tcRoot)...),
		nl.NewRtAttr(tcaKind, nl.ZeroTerminated("fq_codel")).Serialize()...)
	options := nl.NewRtAttr(tcaOptions, nil)
	options.AddRtAttr(1, nl.Uint32Attr(2999)) // target
	options.AddRtAttr(2, nl.Uint32Attr(999))  // limit
	m, err := parseMessage(append(body, options.Serialize()...), tcBytes)
	if err != nil {
		t.Fatal(err)
	}
	made, err := settable(m)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = parseMessage(made, tcBytes); err != nil {
		t.Fatal(err)
	}
	var got []uint32
	err = EachAttribute(m.get(tcaOptions), func(_ uint16, value []byte) error {
		got = append(got, *number(value))
		return nil
	})
	if err != nil || !slices.Equal(got, []uint32{3000, 999}) || unix.ByteSliceToString(m.get(tcaKind)) != "fq_codel" {
		t.Errorf("options %d of %s, %v", got, m.get(tcaKind), err)
	}
}

func FuzzQueueing(f *testing.F) {
	f.Add(append(append([]byte{}, tcHeader(7, 0x70000, tcRoot)...), 8, 0, 1, 0, 'f', 'q', 0, 0))
	f.Add(append(append([]byte{}, tcHeader(7, 1, clsactIngress)...),
		8, 0, 1, 0, 'b', 'p', 'f', 0, 12, 0, 2, 0, 8, 0, 11, 0, 9, 0, 0, 0))
	f.Fuzz(func(t *testing.T, body []byte) {
		if q, _, _, err := parseQdisc(body); err == nil {
			again, _, _, err := parseQdisc(q.Message)
			if err != nil || !again.Equal(q.Saved) || again.Kind != q.Kind {
				t.Errorf("a queueing discipline does not stay the same: %v\n%+v\n%+v", err, q, again)
			}
		}
		if q, _, err := parseFilter(body); err == nil {
			again, _, err := parseFilter(q.Message)
			if err != nil || !again.Equal(q.Saved) || again.Program != q.Program {
				t.Errorf("a filter does not stay the same: %v\n%+v\n%+v", err, q, again)
			}
		}
		if r, err := parseRule(body); err == nil {
			again, err := parseRule(r.Message)
			if err != nil || !again.Equal(r.Saved) {
				t.Errorf("a rule does not stay the same: %v\n%+v\n%+v", err, r, again)
			}
		}
	})
}
