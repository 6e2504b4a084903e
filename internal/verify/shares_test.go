// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// sharing is a node whose first two NICs are shared, the first as macvlan and the second as
// vlan.
func sharing(t *testing.T) *verifytest.Node {
	t.Helper()
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	n.Share(t, 0, model.Share{Type: model.ShareMacvlan, Slots: 4})
	n.Share(t, 1, model.Share{Type: model.ShareVLAN, FirstVLAN: 100, LastVLAN: 199, Slots: 4})
	n.ShowOnHost(t, 7)
	return n
}

const onVLAN100 = `{"interface": {"name": "net1", "vlanID": 100}}`

// A pod with a share is as claimed with a link of its own, whatever class or extended
// resource it came by; of the NIC itself it has the files, and nothing else.
func TestShareOfNIC(t *testing.T) {
	n := sharing(t)
	for _, tt := range []struct {
		name   string
		nic    int
		params string
		change func(*verifytest.Pod)
		says   string
	}{
		{"macvlan", 0, `{}`, nil, "nic is pci-0000-91-00-0: net1, macvlan at 0000:91:00.0, root pci0000:8c, NUMA node 0"},
		{"vlan", 1, onVLAN100, nil, "net1, vlan at 0000:92:00.0"},
		{"under a name of the pod's", 0, `{}`, func(p *verifytest.Pod) {
			p.Links["x"], p.Links["net1"] = p.Links["net1"], verifytest.Link{NIC: 7}
			delete(p.Links, "net1")
		}, "x, macvlan at"},
		{"of a kind that the kernel does not tell", 0, `{}`, func(p *verifytest.Pod) { l := p.Links["net1"]; l.Kind = ""; p.Links["net1"] = l }, "net1, macvlan at"},
	} {
		for _, extended := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				p := n.NewPod("share")
				allocated := n.GiveShare(p, tt.nic, tt.params)
				if extended {
					allocated = allocated.AsExtended("rdma/hca_shared_devices_a")
				}
				if tt.change != nil {
					tt.change(p)
				}
				n.Write(t, p)
				t.Cleanup(func() { n.Remove(t, p) })
				got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]
				text := explain(got)
				if got.Status != evaluate.True || !strings.Contains(text, tt.says) || !strings.Contains(text, "nic has its addresses: 192.0.2.1") || !strings.Contains(text, "nic has its RDMA device: mlx5_") {
					t.Errorf("extended %t, want %q: %s", extended, tt.says, text)
				}
				if len(got.Components) == 0 || got.Components[0].PCI == nil || got.Components[0].Claim != p.Name {
					t.Errorf("components %+v: want the link where its NIC is", got.Components)
				}
			})
		}
	}
}

// What is wrong with a link on a shared NIC is found at the next look and called by its
// name.
func TestInjectedIntoShares(t *testing.T) {
	link := func(change func(*verifytest.Link)) func(*verifytest.Node, *verifytest.Pod) {
		return func(_ *verifytest.Node, p *verifytest.Pod) {
			l := p.Links["net1"]
			change(&l)
			p.Links["net1"] = l
		}
	}
	n := sharing(t)
	for _, tt := range []struct {
		name   string
		inject func(*verifytest.Node, *verifytest.Pod)
		code   evaluate.Code
		says   string
	}{
		{"link gone", func(_ *verifytest.Node, p *verifytest.Pod) { p.Links = nil }, evaluate.DeviceMissing, "no interface of the pod has the alias plumbline-"},
		{"link of another share in its place", link(func(l *verifytest.Link) { l.Alias = "plumbline-0" }), evaluate.DeviceMissing, "there is other links: net1"},
		{"link on another NIC", link(func(l *verifytest.Link) { l.NIC = 7 }), evaluate.DeviceMissing, "net1 stands on 0000:ce:00.0, and the claim has a share of 0000:92:00.0"},
		{"link of another kind", link(func(l *verifytest.Link) { l.Kind = "macvlan" }), evaluate.LinkWrong, "net1 is of kind macvlan, and the NIC is shared as vlan"},
		{"another tag", link(func(l *verifytest.Link) { l.VLANID = 101 }), evaluate.LinkWrong, "net1 has the tag 101, and the claim asks for 100"},
		{"link down", link(func(l *verifytest.Link) { l.Down = true }), evaluate.LinkWrong, "net1 is down"},
		{"address gone", func(_ *verifytest.Node, p *verifytest.Pod) { p.Addresses = []string{"192.0.2.7"} }, evaluate.AddressMissing, "no interface of the pod has 192.0.2.1"},
		{"a link on a NIC that nobody claimed", func(_ *verifytest.Node, p *verifytest.Pod) {
			p.Links["net2"] = verifytest.Link{NIC: 7, Alias: "x", Kind: "macvlan"}
		}, evaluate.DeviceNotClaimed, "net2 at 0000:ce:00.0"},
		{"file of verbs removed", func(_ *verifytest.Node, p *verifytest.Pod) { delete(p.Files, "/dev/infiniband/uverbs1") }, evaluate.RDMAMissing, "container main has no /dev/infiniband/uverbs1"},
		{"RDMA file of another NIC added", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/infiniband/uverbs7"] = n.RDMANumber(7) },
			evaluate.DeviceNotClaimed, "/dev/infiniband/uverbs7 at"},
		{"GIDs gone", func(_ *verifytest.Node, p *verifytest.Pod) { p.GIDs = nil }, evaluate.GIDMissing, "of interface net1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := n.NewPod("share")
			allocated := n.GiveShare(p, 1, onVLAN100)
			l := p.Links["net1"]
			l.VLANID = 100
			p.Links["net1"] = l
			n.Write(t, p)
			t.Cleanup(func() { n.Remove(t, p) })
			r := n.Reader(t)
			if got := look(t, n, r, p, allocated.Expect()); got.Status != evaluate.True {
				t.Fatalf("before: %s", explain(got))
			}
			tt.inject(n, p)
			p.Run()
			n.Write(t, p)
			got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, false)[0]
			if got.Status != evaluate.False || got.Reason != tt.code || !strings.Contains(got.Message, tt.says) {
				t.Errorf("want %s and %q, got %s", tt.code, tt.says, explain(got))
			}
			for _, f := range got.Findings {
				if d := f.Differs; (f.State == evaluate.StateWrong) != (d != nil) || d != nil && (d.Of == "" || d.Attribute == "" || d.Claimed == "" || d.Observed == "") {
					t.Errorf("%s: %s: what differs is %+v", f.State, f.What, d)
				}
			}
		})
	}
}
