// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// What nobody promised, what the pod did itself and what the kernel does not say is no
// alarm.
func TestRDMAWithoutAlarm(t *testing.T) {
	for _, test := range []struct {
		name   string
		names  verifytest.Names
		change func(t *testing.T, n *verifytest.Node, p *verifytest.Pod, e *expect.Pod)
		status evaluate.Status
		says   string
	}{
		{name: "all of it there", status: evaluate.True, says: "mlx5_0, RoCE v2 GID of 192.0.2.1, /dev/infiniband/uverbs0 in main"},
		{name: "DRANET, which promises less", names: verifytest.Originals(), status: evaluate.True, change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *expect.Pod) {
			p.NoRDMA, p.Memlock, p.Files["/dev/infiniband/umad0"] = true, "65536", n.UMADNumber(0)
		}},
		{name: "a driver that has not said so yet", status: evaluate.True, change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, e *expect.Pod) {
			e.Claims[0].Devices[0].RDMAGiven, p.NoRDMA = false, true
		}},
		{name: "a management file that is asked for", status: evaluate.True, says: "/dev/infiniband/umad0 in main", change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, e *expect.Pod) {
			e.Claims[0].Devices[0].Network.UMAD, p.Files["/dev/infiniband/umad0"] = true, n.UMADNumber(0)
		}},
		{name: "an address that the pod took off", status: evaluate.True, change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, e *expect.Pod) {
			e.Claims[0].Devices[0].Addresses, p.GIDs = nil, nil
		}},
		{name: "no connection manager", status: evaluate.True, says: "it has no /dev/infiniband/rdma_cm", change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, _ *expect.Pod) {
			delete(p.Files, "/dev/infiniband/rdma_cm")
		}},
		{name: "a limit that somebody set", status: evaluate.True, says: "RLIMIT_MEMLOCK is 65536 bytes", change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, _ *expect.Pod) {
			p.Memlock = "65536"
		}},
		{name: "a container beside the one that names the device, which has ended", status: evaluate.True, change: func(_ *testing.T, _ *verifytest.Node, p *verifytest.Pod, e *expect.Pod) {
			e.Named, e.Containers[0].Uses = map[string]bool{e.Claims[0].Name: true}, nil
			p.Memlock, p.Files = verifytest.RuntimeMemlock, map[string]string{"/dev/null": "1:3"}
		}},
		{name: "a privileged container", status: evaluate.True, change: func(_ *testing.T, n *verifytest.Node, p *verifytest.Pod, e *expect.Pod) {
			e.Containers[0].Privileged, p.Files["/dev/infiniband/umad0"] = true, n.UMADNumber(0)
		}},
		{name: "a sysfs of which part is mounted over", status: evaluate.Unknown, says: "infiniband", change: func(t *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *expect.Pod) {
			class := n.Path(fmt.Sprintf("proc/%d/root/sys/class/infiniband", p.PID))
			if err := os.RemoveAll(class); err != nil {
				t.Fatal(err)
			}
			// It leads out of sysfs, as no link of the kernel's does.
			symlink(t, t.TempDir(), class)
		}},
		{name: "software, which ended as its interface moved", status: evaluate.True, says: "the node shows none of", change: func(t *testing.T, n *verifytest.Node, p *verifytest.Pod, _ *expect.Pod) {
			for _, class := range []string{"infiniband_verbs", "infiniband_mad"} {
				if err := os.RemoveAll(n.Path("sys/class/" + class)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(n.Path(filepath.Join("proc", fmt.Sprint(p.PID), "root/sys/class/infiniband"))); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := verifytest.NewNode(t, "a3-ultragpu-8g")
			names := test.names
			if names.NIC == nil {
				names = verifytest.Ours()
			}
			p := n.NewPod("train")
			allocated := n.Give(p, names, nil, []int{0}, cpuset.New())
			expected := allocated.Expect()
			n.Write(t, p)
			if test.change != nil {
				test.change(t, n, p, &expected)
				if test.status == evaluate.True && !strings.HasPrefix(test.name, "software") {
					n.Write(t, p)
				}
			}
			got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{expected}, false)[0]
			if got.Status != test.status || !strings.Contains(explain(got), test.says) {
				t.Errorf("want %s and %q: %s", test.status, test.says, explain(got))
			}
		})
	}
}
