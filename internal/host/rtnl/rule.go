// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Values of include/uapi/linux/fib_rules.h that x/sys does not name.
const (
	fibRuleInvert = 2 // FIB_RULE_INVERT
	ruleBytes     = 12
)

// Rule is a rule of policy routing.
type Rule struct {
	Saved
	// Priority orders rules, the lowest first; Table is where it leads to.
	Priority, Table uint32
	// Source and Destination are invalid where the rule has none.
	Source, Destination netip.Prefix
	// Input and Output are the interfaces that it matches, by name; empty for any. A
	// rule stays when its interface leaves, and matches again when one of that name
	// comes.
	Input, Output string
	// Kernel is true for the rules that the kernel makes itself.
	Kernel bool
}

// RuleConfig is a rule to add: traffic from, to, or from and to a prefix looks
// into a table.
type RuleConfig struct {
	// Priority is nil for the kernel's choice, the one before the first rule
	// after 0.
	Priority *uint32 `json:"priority,omitempty"`
	Table    uint32  `json:"table"`
	// Source and Destination are invalid for all.
	Source      netip.Prefix `json:"source,omitzero"`
	Destination netip.Prefix `json:"destination,omitzero"`
	// Family is AF_INET or AF_INET6 where neither prefix tells.
	Family uint8 `json:"family,omitempty"`
}

// String is the rule much as ip prints it.
func (r RuleConfig) String() string {
	rule := Rule{Table: r.Table, Source: r.Source, Destination: r.Destination}
	if r.Priority == nil {
		return ruleText(rule, "")
	}
	return ruleText(rule, fmt.Sprintf("%d: ", *r.Priority))
}

// Matches tells whether a rule is what the configuration makes.
func (r RuleConfig) Matches(rule Rule) bool {
	return !rule.Kernel && r.Table == rule.Table && (r.Priority == nil || *r.Priority == rule.Priority) &&
		r.Source == rule.Source && r.Destination == rule.Destination && rule.Input == "" && rule.Output == ""
}

// Rules lists the rules of the namespace, both families.
func (c *Conn) Rules() ([]Rule, error) {
	var list []Rule
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		header := make(raw, ruleBytes)
		header[0] = family
		err := c.each("rules", unix.RTM_GETRULE, unix.RTM_NEWRULE, func(body []byte) error {
			r, err := parseRule(body)
			list = append(list, r)
			return err
		}, header)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseRule(body []byte) (Rule, error) {
	m, err := parseMessage(body, ruleBytes)
	if err != nil {
		return Rule{}, err
	}
	// struct fib_rule_hdr: family, dst_len, src_len, tos, table, reserved,
	// action, flags. Beside inversion, the flags are state, not configuration.
	flags := binary.NativeEndian.Uint32(m.header[8:12])
	binary.NativeEndian.PutUint32(m.header[8:12], flags&fibRuleInvert)
	r := Rule{Table: uint32(m.header[4])}
	if t, ok := m.number(unix.FRA_TABLE); ok {
		r.Table = t
	}
	r.Priority, _ = m.number(unix.FRA_PRIORITY)
	if r.Destination, err = rulePrefix(m.get(unix.FRA_DST), m.header[1]); err != nil {
		return Rule{}, err
	}
	if r.Source, err = rulePrefix(m.get(unix.FRA_SRC), m.header[2]); err != nil {
		return Rule{}, err
	}
	r.Input = unix.ByteSliceToString(m.get(unix.FRA_IIFNAME))
	r.Output = unix.ByteSliceToString(m.get(unix.FRA_OIFNAME))
	proto := m.get(unix.FRA_PROTOCOL)
	r.Kernel = len(proto) == 1 && proto[0] == unix.RTPROT_KERNEL
	r.Message = m.without()
	r.Text = ruleText(r, fmt.Sprintf("%d: ", r.Priority))
	return r, nil
}

func rulePrefix(value []byte, bits byte) (netip.Prefix, error) {
	if value == nil {
		return netip.Prefix{}, nil
	}
	ip, ok := netip.AddrFromSlice(value)
	if !ok || int(bits) > ip.BitLen() {
		return netip.Prefix{}, fmt.Errorf("a rule's prefix of %d bytes and length %d", len(value), bits)
	}
	return netip.PrefixFrom(ip, int(bits)), nil
}

func ruleText(r Rule, priority string) string {
	text := priority + "from "
	if r.Source.IsValid() {
		text += r.Source.String()
	} else {
		text += "all"
	}
	if r.Destination.IsValid() {
		text += " to " + r.Destination.String()
	}
	if r.Input != "" {
		text += " iif " + r.Input
	}
	if r.Output != "" {
		text += " oif " + r.Output
	}
	return text + fmt.Sprintf(" lookup %d", r.Table)
}

// AddRule adds a rule. It is no error when it is there already.
func (c *Conn) AddRule(r RuleConfig) error {
	there, err := c.hasUnordered(r)
	if err == nil && !there {
		err = c.addRule(r)
	}
	if err != nil {
		return fmt.Errorf("add rule %s: %w", r, err)
	}
	return nil
}

// hasUnordered tells whether a rule without a priority is there: adding it again would
// not fail, as the kernel would choose another priority.
func (c *Conn) hasUnordered(r RuleConfig) (bool, error) {
	if r.Priority != nil {
		return false, nil
	}
	rules, err := c.Rules()
	return slices.ContainsFunc(rules, r.Matches), err
}

func (c *Conn) addRule(r RuleConfig) error {
	// The same layout as struct fib_rule_hdr.
	header := nl.NewRtMsg()
	header.RtMsg = unix.RtMsg{Family: r.Family, Protocol: 0, Type: unix.FR_ACT_TO_TBL}
	data := []nl.NetlinkRequestData{header,
		nl.NewRtAttr(unix.FRA_TABLE, nl.Uint32Attr(r.Table)),
		nl.NewRtAttr(unix.FRA_PROTOCOL, []byte{unix.RTPROT_STATIC}),
	}
	if r.Priority != nil {
		data = append(data, nl.NewRtAttr(unix.FRA_PRIORITY, nl.Uint32Attr(*r.Priority)))
	}
	if p := r.Destination; p.IsValid() {
		header.Family, header.Dst_len = family(p.Addr()), uint8(p.Bits())
		data = append(data, nl.NewRtAttr(unix.FRA_DST, p.Masked().Addr().AsSlice()))
	}
	if p := r.Source; p.IsValid() {
		header.Family, header.Src_len = family(p.Addr()), uint8(p.Bits())
		data = append(data, nl.NewRtAttr(unix.FRA_SRC, p.Masked().Addr().AsSlice()))
	}
	err := c.change(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data...)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// DeleteRule deletes a saved rule. It is no error when it is gone.
func (c *Conn) DeleteRule(s Saved) error {
	if err := c.change(unix.RTM_DELRULE, 0, raw(s.Message)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete rule %s: %w", s.Text, err)
	}
	return nil
}

// RestoreRule adds a saved rule. It is no error when it is there already.
func (c *Conn) RestoreRule(s Saved) error {
	err := c.change(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, raw(s.Message))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("restore rule %s: %w", s.Text, err)
	}
	return nil
}
