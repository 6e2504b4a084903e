// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

// Kinds of link that a holder of a shared NIC gets.
const (
	ShareMacvlan = "macvlan"
	ShareIPvlan  = "ipvlan"
	ShareVLAN    = "vlan"
)

// Share is how a NIC is offered to many pods at once: it stays on the host, and each
// holder gets a link of its own on it.
type Share struct {
	// Type is the kind of link that a holder gets: ShareMacvlan, ShareIPvlan or ShareVLAN.
	Type string `json:"type"`
	// Mode is that of a macvlan whose claim asks for none, and of all ipvlans, which
	// the NIC has one of (drivers/net/ipvlan/ipvlan_main.c, ipvlan_link_new). Empty is
	// the first of the kernel's: bridge, or l2.
	Mode string `json:"mode,omitempty"`
	// Flag is that of all ipvlans: bridge, private or vepa. Empty is bridge.
	Flag string `json:"flag,omitempty"`
	// FirstVLAN and LastVLAN are between which tags a holder of a vlan may choose.
	FirstVLAN int `json:"firstVLAN,omitempty"`
	LastVLAN  int `json:"lastVLAN,omitempty"`
	// Slots are how many claims can have the NIC at once, of one slot each.
	Slots int64 `json:"slots"`
	// Bandwidth is what claims can take of it, in bit/s: a figure to count with, which
	// nothing enforces. 0 is none to take.
	Bandwidth int64 `json:"bandwidth,omitempty"`
	// Pool is the pool of addresses that links are given one of whose claims say nothing
	// of addresses; empty for none.
	Pool string `json:"pool,omitempty"`
	// AlsoExclusive offers the NIC whole as well, as a device of another name: a claim that
	// has it whole keeps those off that want shares, and they that.
	AlsoExclusive bool `json:"alsoExclusive,omitempty"`
	// WithoutRDMA says that the RDMA device is seen in one network namespace only, and so
	// by no holder of a share.
	WithoutRDMA bool `json:"withoutRDMA,omitempty"`
}

// HeldShare is what a claim has of a NIC that is shared.
type HeldShare struct {
	// NIC is as it was when the share was taken, with the offer of then.
	NIC NIC
	// Slots are how many of the NIC's the claim took; none where it has the NIC whole,
	// which is offered so too.
	Slots int64
}

// InShares is a NIC as those that share it have it.
func (n *NIC) InShares() *NIC {
	if n.Share == nil || !n.Share.WithoutRDMA {
		return n
	}
	shared := *n
	shared.RDMA = nil
	return &shared
}

// HasTwin says whether a NIC that is shared is offered whole as well.
func (n *NIC) HasTwin() bool { return n.Share != nil && n.Share.AlsoExclusive && n.Withheld == nil }

// Offered says whether claims can have the NIC: whole, or a share of it. What keeps a NIC
// on the host does not keep it from being shared.
func (n *NIC) Offered() bool { return n.Withheld == nil || n.Share != nil }

// Withhold keeps a NIC from claims, whole and in shares.
func (n *NIC) Withhold(reason string) {
	n.Share = nil
	if n.Withheld == nil {
		n.Withheld = &reason
	}
}
