// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Values of include/uapi/linux/pkt_sched.h and rtnetlink.h that x/sys does not
// name.
const (
	tcBytes         = 20         // sizeof(struct tcmsg)
	tcRoot          = 0xffffffff // TC_H_ROOT
	tcIngress       = 0xfffffff1 // TC_H_INGRESS, TC_H_CLSACT; its handle is ffff:0
	clsactIngress   = 0xfffffff2 // TC_H_CLSACT and TC_H_MIN_INGRESS
	clsactEgress    = 0xfffffff3 // TC_H_CLSACT and TC_H_MIN_EGRESS
	tcaKind         = 1
	tcaOptions      = 2
	tcaStats        = 3
	tcaXstats       = 4
	tcaStats2       = 7
	tcaChain        = 11
	tcaHWOffload    = 12
	tcaIngressBlock = 13
	tcaEgressBlock  = 14
)

// classless are the queueing disciplines without classes or children, whose kind and
// options are all there is to restore.
var classless = []string{"pfifo", "bfifo", "pfifo_fast", "pfifo_head_drop", "fq", "fq_codel", "codel", "sfq", "noqueue"}

// Qdisc is a queueing discipline.
type Qdisc struct {
	Saved
	// Kind is such as fq_codel; Handle and Parent are major:minor numbers of 16 bits
	// each. One that the kernel made by itself has handle 0.
	Kind   string `json:"kind"`
	Handle uint32 `json:"handle"`
	Parent uint32 `json:"parent"`
}

// QdiscVerdict says whether a link's queueing can be restored.
type QdiscVerdict int

const (
	// QdiscDefault is what the kernel makes by itself.
	QdiscDefault QdiscVerdict = iota
	// QdiscRestorable is what RestoreQueueing and RestoreFilter restore.
	QdiscRestorable
	// QdiscLost cannot be restored as it was.
	QdiscLost
)

// String is a word for messages.
func (v QdiscVerdict) String() string { return []string{"default", "restorable", "lost"}[v] }

// Queueing is a link's queueing disciplines and their filters, which the kernel deletes
// when the link moves to another namespace (net/sched/sch_generic.c, dev_shutdown).
type Queueing struct {
	// Root is for what the link sends; nil when the link is down and has the
	// kernel's default.
	Root *Qdisc `json:"root,omitempty"`
	// Ingress is clsact or ingress, which hold filters only; nil without.
	Ingress *Qdisc   `json:"ingress,omitempty"`
	Filters []Filter `json:"filters,omitempty"`
	// Verdict says whether all this can be restored, and Reason why not.
	Verdict QdiscVerdict `json:"verdict"`
	Reason  string       `json:"reason,omitempty"`
}

// Queueing reads the queueing disciplines and filters of a link.
func (c *Conn) Queueing(index int) (Queueing, error) {
	all, err := c.Queueings([]int{index})
	return all[index], err
}

// Queueings reads those of several links, by their ifindexes, in one dump: the kernel
// dumps those of all links in any case.
func (c *Conn) Queueings(indexes []int) (map[int]Queueing, error) {
	all, err := c.queueings(indexes)
	if err != nil {
		return nil, fmt.Errorf("read queueing disciplines of links %v: %w", indexes, err)
	}
	return all, nil
}

func (c *Conn) queueings(indexes []int) (map[int]Queueing, error) {
	wanted := func(body []byte) bool {
		return len(body) < tcBytes || slices.Contains(indexes, int(binary.NativeEndian.Uint32(body[4:8])))
	}
	messages, err := c.dump(unix.RTM_GETQDISC, unix.RTM_NEWQDISC, wanted, tcHeader(0, 0, 0))
	if err != nil {
		return nil, err
	}
	all := make(map[int]Queueing, len(indexes))
	children, blocks := map[int][]Qdisc{}, map[int]bool{}
	for _, body := range messages {
		d, of, shared, err := parseQdisc(body)
		if err != nil {
			return nil, err
		}
		q := all[of]
		switch d.Parent {
		case tcRoot:
			q.Root = &d
		case tcIngress:
			q.Ingress = &d
		default:
			children[of] = append(children[of], d)
		}
		all[of], blocks[of] = q, blocks[of] || shared
	}
	for _, index := range indexes {
		q := all[index]
		if q.Filters, err = c.filters(index, q); err != nil {
			return nil, err
		}
		q.setVerdict(children[index], blocks[index])
		all[index] = q
	}
	return all, nil
}

// setVerdict fills in the verdict.
func (q *Queueing) setVerdict(children []Qdisc, blocks bool) {
	q.Verdict = QdiscDefault
	if q.Root != nil && q.Root.Handle != 0 || q.Ingress != nil {
		q.Verdict = QdiscRestorable
	}
	if reason := q.lossReason(children, blocks); reason != "" {
		q.Verdict, q.Reason = QdiscLost, reason
	}
}

// lossReason is why not all can be restored; empty when it can.
func (q *Queueing) lossReason(children []Qdisc, blocks bool) string {
	if r := q.Root; r != nil && r.Handle != 0 && r.Kind != "mq" && !slices.Contains(classless, r.Kind) {
		return fmt.Sprintf("the root queueing discipline %s may have classes, which are not restored", r.Text)
	}
	for _, c := range children {
		if c.Handle != 0 {
			return fmt.Sprintf("the queueing discipline %s has a parent other than the root, which is not restored", c.Text)
		}
	}
	if blocks {
		return "its filters are in a block that other links may share"
	}
	for _, f := range q.Filters {
		if !f.restorable() {
			return fmt.Sprintf("the filter %s is not restored", f.Text)
		}
	}
	return ""
}

// parseQdisc reads a body; of is the link's ifindex, and shared is set where its
// filters are in a block.
func parseQdisc(body []byte) (d Qdisc, of int, shared bool, err error) {
	m, err := parseMessage(body, tcBytes)
	if err != nil {
		return Qdisc{}, 0, false, err
	}
	// struct tcmsg: family, padding, ifindex, handle, parent, and a count of
	// references that is no configuration.
	of = int(int32(binary.NativeEndian.Uint32(m.header[4:8])))
	d = Qdisc{
		Kind:   unix.ByteSliceToString(m.get(tcaKind)),
		Handle: binary.NativeEndian.Uint32(m.header[8:12]),
		Parent: binary.NativeEndian.Uint32(m.header[12:16]),
	}
	clear(m.header[4:8])
	clear(m.header[16:20])
	d.Message = m.without(tcaStats, tcaXstats, tcaStats2, tcaHWOffload)
	d.Text = fmt.Sprintf("%s %x:", d.Kind, d.Handle>>16)
	shared = m.get(tcaIngressBlock) != nil || m.get(tcaEgressBlock) != nil
	return d, of, shared, nil
}

// RestoreQueueing adds queueing disciplines that are missing. It ignores nil and what
// the kernel makes by itself.
func (c *Conn) RestoreQueueing(index int, root, ingress *Qdisc) error {
	have, err := c.Queueing(index)
	if err != nil {
		return err
	}
	var errs []error
	if root != nil && root.Handle != 0 && (have.Root == nil || !have.Root.Equal(root.Saved)) {
		errs = append(errs, c.replaceRoot(index, have.Root, *root))
	}
	if ingress != nil && (have.Ingress == nil || !have.Ingress.Equal(ingress.Saved)) {
		errs = append(errs, c.restoreQdisc(index, ingress.Saved, unix.NLM_F_CREATE|unix.NLM_F_EXCL))
	}
	return errors.Join(errs...)
}

// replaceRoot restores the root. One with the same handle is deleted first: the kernel
// would only change it, which some settings, such as the flows of fq_codel, refuse.
func (c *Conn) replaceRoot(index int, have *Qdisc, want Qdisc) error {
	if have != nil && have.Handle == want.Handle {
		err := c.change(unix.RTM_DELQDISC, 0, tcHeader(index, have.Handle, tcRoot))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete queueing discipline %s of link %d: %w", have.Text, index, err)
		}
	}
	return c.restoreQdisc(index, want.Saved, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
}

func (c *Conn) restoreQdisc(index int, s Saved, flags int) error {
	m, err := parseMessage(s.Message, tcBytes)
	if err == nil {
		binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
		var body []byte
		if body, err = settable(m); err == nil {
			err = c.change(unix.RTM_NEWQDISC, flags, raw(body))
		}
	}
	if err != nil {
		return fmt.Errorf("restore queueing discipline %s of link %d: %w", s.Text, index, err)
	}
	return nil
}

// codelTimes are the options that the kernel keeps in units of 1024 ns and reports in
// microseconds (include/net/codel.h): TARGET, INTERVAL and CE_THRESHOLD of
// include/uapi/linux/pkt_sched.h.
var codelTimes = map[string][]uint16{"codel": {1, 3, 5}, "fq_codel": {1, 3, 7}}

// settable is the body of a queueing discipline with options that result in the
// reported ones when they are set.
func settable(m message) ([]byte, error) {
	times := codelTimes[unix.ByteSliceToString(m.get(tcaKind))]
	if times == nil || m.get(tcaOptions) == nil {
		return m.without(), nil
	}
	options := nl.NewRtAttr(tcaOptions, nil)
	err := EachAttribute(m.get(tcaOptions), func(kind uint16, value []byte) error {
		if told := number(value); told != nil && slices.Contains(times, kind) {
			value = nl.Uint32Attr(codelTime(*told))
		}
		options.AddRtAttr(int(kind), value)
		return nil
	})
	return append(m.without(tcaOptions), options.Serialize()...), err
}

// codelTime is the time to set so that the kernel reports the given one. It rounds down
// in both directions, so that setting what it reports would lose one each time.
func codelTime(told uint32) uint32 {
	kept := (uint64(told)*1000 + 1023) / 1024
	return uint32(min((kept*1024+999)/1000, math.MaxUint32))
}

// AddClsact adds the queueing discipline clsact, which holds filters. It is no error
// when there is one.
func (c *Conn) AddClsact(index int) error {
	err := c.change(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		tcHeader(index, tcIngress&0xffff0000, tcIngress), nl.NewRtAttr(tcaKind, nl.ZeroTerminated("clsact")))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact to link %d: %w", index, err)
	}
	return nil
}

func tcHeader(index int, handle, parent uint32) raw {
	header := make(raw, tcBytes)
	binary.NativeEndian.PutUint32(header[4:8], uint32(index))
	binary.NativeEndian.PutUint32(header[8:12], handle)
	binary.NativeEndian.PutUint32(header[12:16], parent)
	return header
}
