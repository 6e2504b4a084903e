// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// fakeNIC is the kernel over a driver that has what none of this machine has:
// FEC, a hash with a table and a key, rules, and the like.
type fakeNIC struct {
	// told are the attributes of each answer, by the message that asks.
	told map[uint8]map[uint16][]byte
	// table, key, function are the hash's; configured says that somebody has set
	// the table.
	table      []uint32
	key        []byte
	function   byte
	configured bool
	rules      map[uint32][]byte
	fields     map[uint32]uint64
	timestamps []byte
	// refuses are messages that the driver refuses with this error.
	refuses map[uint8]error
	sets    int
}

func newFakeNIC() *fakeNIC {
	f := &fakeNIC{
		told: map[uint8]map[uint16][]byte{
			unix.ETHTOOL_MSG_CHANNELS_GET: {
				unix.ETHTOOL_A_CHANNELS_COMBINED_MAX: nl.Uint32Attr(8), unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT: nl.Uint32Attr(8),
			},
			unix.ETHTOOL_MSG_RINGS_GET: {unix.ETHTOOL_A_RINGS_RX_MAX: nl.Uint32Attr(4096), unix.ETHTOOL_A_RINGS_RX: nl.Uint32Attr(1024)},
			unix.ETHTOOL_MSG_COALESCE_GET: {
				unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX: {1}, unix.ETHTOOL_A_COALESCE_RX_USECS: nl.Uint32Attr(50),
				unix.ETHTOOL_A_COALESCE_TX_USECS: nl.Uint32Attr(8),
			},
			unix.ETHTOOL_MSG_FEC_GET:   {fecModes: bits("00000200", ""), fecAuto: {0}},
			unix.ETHTOOL_MSG_WOL_GET:   {unix.ETHTOOL_A_WOL_MODES: bits("20000000", "2f000000")},
			unix.ETHTOOL_MSG_PAUSE_GET: {unix.ETHTOOL_A_PAUSE_AUTONEG: {0}, unix.ETHTOOL_A_PAUSE_RX: {1}, unix.ETHTOOL_A_PAUSE_TX: {1}},
			unix.ETHTOOL_MSG_EEE_GET:   {unix.ETHTOOL_A_EEE_ENABLED: {1}, unix.ETHTOOL_A_EEE_ACTIVE: {1}},
			unix.ETHTOOL_MSG_LINKMODES_GET: {
				unix.ETHTOOL_A_LINKMODES_AUTONEG: {0}, unix.ETHTOOL_A_LINKMODES_SPEED: nl.Uint32Attr(100000),
				unix.ETHTOOL_A_LINKMODES_DUPLEX: {1}, unix.ETHTOOL_A_LINKMODES_OURS: bits("ff000000", "ff0f0000"),
			},
		},
		key: []byte("a key of the host's"), function: 1,
		rules:   map[uint32][]byte{7: rule(7, 5), 1023: rule(1023, 2)},
		fields:  map[uint32]uint64{unix.TCP_V4_FLOW: 0xf0, unix.UDP_V4_FLOW: 0x30},
		refuses: map[uint8]error{},
	}
	f.timestamps = make([]byte, 12)
	f.spread()
	return f
}

// bits is a bit set of the compact form.
func bits(value, mask string) []byte {
	if mask != "" {
		value += "/" + mask
	}
	set, err := encodeSet(1, value)
	if err != nil {
		panic(err)
	}
	return set.Serialize()[unix.SizeofRtAttr:]
}

// rule is a specification that leads to a queue.
func rule(place uint32, queue uint64) []byte {
	r := make([]byte, placesAt-ruleAt)
	binary.NativeEndian.PutUint32(r, unix.TCP_V4_FLOW)
	binary.NativeEndian.PutUint64(r[152:], queue)
	binary.NativeEndian.PutUint32(r[placeAt-ruleAt:], place)
	return r
}

func (f *fakeNIC) queues() uint32 {
	return binary.NativeEndian.Uint32(f.told[unix.ETHTOOL_MSG_CHANNELS_GET][unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT])
}

// spread is the kernel's own table.
func (f *fakeNIC) spread() {
	f.table, f.configured = make([]uint32, 16), false
	for i := range f.table {
		f.table[i] = uint32(i) % f.queues()
	}
}

func (f *fakeNIC) get(command uint8, _ string) ([]byte, error) {
	if f.told[command] == nil {
		return nil, unix.EOPNOTSUPP
	}
	var answer []byte
	for _, kind := range slices.Sorted(maps.Keys(f.told[command])) {
		answer = append(answer, nl.NewRtAttr(int(kind), f.told[command][kind]).Serialize()...)
	}
	return answer, nil
}

// set is answered one above its question (enum ethtool_msg_user).
func (f *fakeNIC) set(command uint8, _ string, attributes []*nl.RtAttr) error {
	f.sets++
	if err := f.refuses[command]; err != nil {
		return err
	}
	for _, a := range attributes {
		err := rtnl.EachAttribute(a.Serialize(), func(kind uint16, value []byte) error {
			if command == unix.ETHTOOL_MSG_CHANNELS_SET && f.configured && slices.Max(f.table) >= binary.NativeEndian.Uint32(value) {
				return unix.EINVAL // the table uses a queue that would go
			}
			f.told[command-1][kind] = value
			return nil
		})
		if err != nil {
			return err
		}
	}
	if command == unix.ETHTOOL_MSG_CHANNELS_SET && !f.configured {
		f.spread()
	}
	return nil
}

func (f *fakeNIC) ioctl(number uint, _ string, data []byte) error {
	switch number {
	case unix.SIOCGHWTSTAMP:
		copy(data, f.timestamps)
		return nil
	case unix.SIOCSHWTSTAMP:
		f.sets++
		f.timestamps = slices.Clone(data)
		return nil
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(data[min(at, len(data)-4):]) }
	place := word(placeAt)
	switch command := binary.NativeEndian.Uint32(data); command {
	case unix.ETHTOOL_GRSSH:
		if word(hashTableSize) == 0 {
			binary.NativeEndian.PutUint32(data[hashTableSize:], uint32(len(f.table)))
			binary.NativeEndian.PutUint32(data[hashKeySize:], uint32(len(f.key)))
		} else {
			for i, queue := range f.table {
				binary.NativeEndian.PutUint32(data[hashLen+4*i:], queue)
			}
			copy(data[hashLen+4*len(f.table):], f.key)
		}
		data[hashFunction] = f.function
	case unix.ETHTOOL_SRSSH:
		return f.setHash(data)
	case unix.ETHTOOL_GRXRINGS:
		binary.NativeEndian.PutUint64(data[dataAt:], uint64(f.queues()))
	case unix.ETHTOOL_GRXFH:
		fields, ok := f.fields[word(flowTypeAt)]
		if !ok {
			return unix.EINVAL
		}
		binary.NativeEndian.PutUint64(data[dataAt:], fields)
	case unix.ETHTOOL_SRXFH:
		f.fields[word(flowTypeAt)] = binary.NativeEndian.Uint64(data[dataAt:])
		f.sets++
	case unix.ETHTOOL_GRXCLSRLCNT:
		binary.NativeEndian.PutUint32(data[countAt:], uint32(len(f.rules)))
	case unix.ETHTOOL_GRXCLSRLALL:
		for i, place := range slices.Sorted(maps.Keys(f.rules)) {
			binary.NativeEndian.PutUint32(data[placesAt+4*i:], place)
		}
	case unix.ETHTOOL_GRXCLSRULE:
		copy(data[ruleAt:], f.rules[place])
	case unix.ETHTOOL_SRXCLSRLDEL:
		if f.rules[place] == nil {
			return unix.ENOENT
		}
		delete(f.rules, place)
		f.sets++
	case unix.ETHTOOL_SRXCLSRLINS:
		if binary.NativeEndian.Uint64(data[ruleAt+152:]) >= uint64(f.queues()) {
			return unix.EINVAL
		}
		f.rules[place] = slices.Clone(data[ruleAt:placesAt])
		f.sets++
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

func (f *fakeNIC) setHash(data []byte) error {
	f.sets++
	rest := data[hashLen:]
	switch words := binary.NativeEndian.Uint32(data[hashTableSize:]); words {
	case keepTable:
	case 0:
		f.spread()
	default:
		table := make([]uint32, words)
		for i := range table {
			table[i] = binary.NativeEndian.Uint32(rest[4*i:])
			if table[i] >= f.queues() {
				return unix.EINVAL
			}
		}
		f.table, f.configured, rest = table, true, rest[4*words:]
	}
	if n := binary.NativeEndian.Uint32(data[hashKeySize:]); n > 0 {
		f.key = slices.Clone(rest[:n])
	}
	if data[hashFunction] != 0 {
		f.function = data[hashFunction]
	}
	return nil
}

func read(t *testing.T, c *Conn) Settings {
	t.Helper()
	s, err := c.Settings("nic0")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whatever a pod sets of a device is restored, in an order in which that is possible, and
// nothing else is changed.
func TestSettingsComeBack(t *testing.T) {
	equal := func(queues uint32) func(f *fakeNIC) { // ethtool -X nic0 equal N
		return func(f *fakeNIC) {
			f.configured = true
			for i := range f.table {
				f.table[i] = uint32(i) % queues
			}
		}
	}
	put := func(command uint8, kind uint16, value []byte) func(f *fakeNIC) {
		return func(f *fakeNIC) { f.told[command][kind] = value }
	}
	channels := func(n uint32) func(f *fakeNIC) {
		return func(f *fakeNIC) {
			_ = f.set(unix.ETHTOOL_MSG_CHANNELS_SET, "", []*nl.RtAttr{nl.NewRtAttr(unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT, nl.Uint32Attr(n))})
		}
	}
	for _, c := range []struct {
		name      string
		host, pod []func(f *fakeNIC)
		// sets is how many requests that takes.
		sets int
		// stays is what does not come back.
		stays []string
	}{
		{name: "nothing"},
		{name: "channels", pod: []func(*fakeNIC){func(f *fakeNIC) { clear(f.rules) }, channels(1)}, sets: 4},
		{name: "rings", pod: []func(*fakeNIC){put(unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_A_RINGS_RX, nl.Uint32Attr(64))}, sets: 1},
		{name: "coalescing", pod: []func(*fakeNIC){
			put(unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, []byte{0}),
			put(unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_A_COALESCE_TX_USECS, nl.Uint32Attr(100)),
		}, sets: 1},
		{name: "what adaptive coalescing moves", pod: []func(*fakeNIC){
			put(unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_A_COALESCE_RX_USECS, nl.Uint32Attr(3)),
		}, stays: []string{"coalesce.rx-usecs"}},
		{name: "FEC", pod: []func(*fakeNIC){
			put(unix.ETHTOOL_MSG_FEC_GET, fecModes, bits("00000400", "")), put(unix.ETHTOOL_MSG_FEC_GET, fecAuto, []byte{1}),
		}, sets: 1},
		{name: "wake on LAN", pod: []func(*fakeNIC){put(unix.ETHTOOL_MSG_WOL_GET, unix.ETHTOOL_A_WOL_MODES, bits("00000000", "2f000000"))}, sets: 1},
		{name: "pause", pod: []func(*fakeNIC){put(unix.ETHTOOL_MSG_PAUSE_GET, unix.ETHTOOL_A_PAUSE_RX, []byte{0})}, sets: 1},
		{name: "EEE", pod: []func(*fakeNIC){put(unix.ETHTOOL_MSG_EEE_GET, unix.ETHTOOL_A_EEE_ENABLED, []byte{0})}, sets: 1},
		{name: "speed", pod: []func(*fakeNIC){put(unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_SPEED, nl.Uint32Attr(10000))}, sets: 1},
		{name: "a speed that is not known for want of a carrier", pod: []func(*fakeNIC){
			put(unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_SPEED, nl.Uint32Attr(1<<32-1)),
		}, sets: 1},
		{name: "negotiated",
			host:  []func(*fakeNIC){put(unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_AUTONEG, []byte{1})},
			pod:   []func(*fakeNIC){put(unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_SPEED, nl.Uint32Attr(10000))},
			stays: []string{"link.speed"}},
		{name: "modes",
			host: []func(*fakeNIC){put(unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_AUTONEG, []byte{1})},
			pod:  []func(*fakeNIC){put(unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_OURS, bits("0f000000", "ff0f0000"))}, sets: 1},
		{name: "the table", pod: []func(*fakeNIC){equal(2)}, sets: 1},
		{name: "a table of the host's", host: []func(*fakeNIC){equal(3)}, pod: []func(*fakeNIC){equal(2)}, sets: 1},
		{name: "key and function", pod: []func(*fakeNIC){func(f *fakeNIC) {
			f.key, f.function = []byte("a key of the pod's."), 2
		}}, sets: 1},
		{name: "a table that keeps the channels", host: []func(*fakeNIC){
			func(f *fakeNIC) { clear(f.rules) }, channels(4)}, pod: []func(*fakeNIC){channels(8), equal(8)}, sets: 3},
		{name: "channels that keep a table", host: []func(*fakeNIC){equal(8)}, pod: []func(*fakeNIC){
			func(f *fakeNIC) { clear(f.rules); f.spread() }, channels(2)}, sets: 5},
		{name: "rules", pod: []func(*fakeNIC){func(f *fakeNIC) {
			f.rules = map[uint32][]byte{7: rule(7, 1), 8: rule(8, 1)}
		}}, sets: 4},
		{name: "hashed fields", pod: []func(*fakeNIC){func(f *fakeNIC) { f.fields[unix.UDP_V4_FLOW] = 0xf0 }}, sets: 1},
		{name: "timestamps", pod: []func(*fakeNIC){func(f *fakeNIC) { f.timestamps[8] = 1 }}, sets: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			nic := newFakeNIC()
			conn := &Conn{kernel: nic}
			for _, change := range c.host {
				change(nic)
			}
			before := read(t, conn)
			for _, change := range c.pod {
				change(nic)
			}
			if changed := read(t, conn); len(c.pod) > 0 && maps.Equal(before, changed) {
				t.Fatal("the pod has changed nothing")
			}
			nic.sets = 0
			for range 2 {
				if err := conn.RestoreSettings("nic0", before); err != nil {
					t.Error(err)
				}
			}
			after := read(t, conn)
			for _, key := range c.stays {
				if after[key] == before[key] {
					t.Errorf("%s came back", key)
				}
				after[key] = before[key]
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("restored (-before +after):\n%s", diff)
			}
			if nic.sets > c.sets && !strings.Contains(c.name, "channels") {
				t.Errorf("%d requests, want %d", nic.sets, c.sets)
			}
		})
	}
}

// The kernel's own table is the kernel's again: set word by word it would keep
// the channels.
func TestDefaultTableIsNobodys(t *testing.T) {
	nic := newFakeNIC()
	conn := &Conn{kernel: nic}
	before := read(t, conn)
	nic.table[3], nic.configured = 0, true
	if err := conn.RestoreSettings("nic0", before); err != nil || nic.configured {
		t.Errorf("%v, the table is an administrator's: %t", err, nic.configured)
	}
}

func TestRefusedSettings(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuses map[uint8]error
		want    string
	}{
		{"the driver's own word", map[uint8]error{unix.ETHTOOL_MSG_RINGS_SET: unix.EBUSY}, `restore settings of interface "nic0": rings: device or resource busy`},
		{"told of the link", map[uint8]error{unix.ETHTOOL_MSG_PAUSE_SET: unix.EOPNOTSUPP, unix.ETHTOOL_MSG_LINKMODES_SET: unix.EINVAL}, ""},
		{"a link in trouble", map[uint8]error{unix.ETHTOOL_MSG_PAUSE_SET: unix.EIO}, "pause: input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nic := newFakeNIC()
			conn := &Conn{kernel: nic}
			before := read(t, conn)
			nic.told[unix.ETHTOOL_MSG_PAUSE_GET][unix.ETHTOOL_A_PAUSE_RX] = []byte{0}
			nic.told[unix.ETHTOOL_MSG_LINKMODES_GET][unix.ETHTOOL_A_LINKMODES_DUPLEX] = []byte{0}
			if c.refuses[unix.ETHTOOL_MSG_RINGS_SET] != nil {
				nic.told[unix.ETHTOOL_MSG_RINGS_GET][unix.ETHTOOL_A_RINGS_RX] = nl.Uint32Attr(64)
			}
			nic.refuses = c.refuses
			err := conn.RestoreSettings("nic0", before)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A setting that a driver does not support is left out; any other error is returned.
func TestUnreadableSettings(t *testing.T) {
	for _, c := range []struct {
		err  error
		fail bool
	}{{unix.EIO, false}, {unix.ENODEV, false}, {unix.ENOBUFS, true}, {unix.EPERM, true}} {
		s, err := (&Conn{kernel: mute{newFakeNIC(), c.err}}).Settings("nic0")
		if (err != nil) != c.fail || !c.fail && (s["hash.table"] == "" || s["rings.rx"] != "") {
			t.Errorf("%v: %v, settings %v", c.err, err, s)
		}
	}
}

type mute struct {
	*fakeNIC
	err error
}

func (m mute) get(uint8, string) ([]byte, error) { return nil, m.err }

// A driver that takes a request and does nothing.
func TestSettingNotTaken(t *testing.T) {
	nic := newFakeNIC()
	conn := &Conn{kernel: deaf{nic}}
	want := read(t, conn)
	want["rings.rx"] = "64"
	var notTaken *NotAppliedError
	if err := conn.RestoreSettings("nic0", want); !errors.As(err, &notTaken) || !slices.Equal(notTaken.Names, []string{"rings.rx"}) {
		t.Errorf("error %v", err)
	}
}

type deaf struct{ *fakeNIC }

func (deaf) set(uint8, string, []*nl.RtAttr) error { return nil }

// A veth has channels, and a link that only tells.
func TestChannelsOfAVeth(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, "ip link add nic0 numtxqueues 4 numrxqueues 4 type veth peer name nic1\nip link set nic0 up\nip link set nic1 up")
	conn, err := Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	before := read(t, conn)
	if before["channels.rx"] != "4" || before["channels.tx"] != "4" || before["link.speed"] != "10000" {
		t.Errorf("settings %v", before)
	}
	if err := conn.RestoreSettings("nic0", Settings{"channels.rx": "1", "channels.tx": "2"}); err != nil {
		t.Fatal(err)
	}
	now := read(t, conn)
	if now["channels.rx"] != "1" || now["channels.tx"] != "2" {
		t.Errorf("settings %v, want one channel to receive and two to send", now)
	}
	if err := conn.RestoreSettings("nic0", before); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, read(t, conn)); diff != "" {
		t.Errorf("restored (-before +after):\n%s", diff)
	}
	err = conn.RestoreSettings("nic0", Settings{"channels.rx": "9"})
	if err == nil || !strings.Contains(err.Error(), "channels: invalid argument") {
		t.Errorf("nine of four channels: %v", err)
	}
}

// What is decoded may come from a damaged journal, or from a driver's bug.
func FuzzSettings(f *testing.F) {
	f.Add("fec.modes", "00000200", []byte{8, 0, 4, 0, 1, 0, 0, 0})
	f.Add("hash.table", "0000", []byte{})
	f.Add("ntuple.7", "ff", []byte{8, 0, 6, 0, 1, 0, 0, 0})
	f.Add("wol.modes", "00/zz", []byte{12, 0, 2, 128, 8, 0, 4, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key, value string, answer []byte) {
		_ = (&Conn{kernel: newFakeNIC()}).RestoreSettings("nic0", Settings{key: value})
		for _, attributes := range [][]attribute{{{"modes", 2, set, 0}, {"number", 6, number, 0}, {"octet", 3, octet, 0}}} {
			s, err := parseMessage(answer, attributes)
			if err != nil {
				return
			}
			for _, a := range attributes {
				if s[a.name] == "" {
					continue
				}
				again, err := a.encode(s[a.name])
				if err != nil {
					t.Fatalf("%s %q: %v", a.name, s[a.name], err)
				}
				if text, err := a.decode(again.Serialize()[unix.SizeofRtAttr:]); text != s[a.name] && a.kind != set || err != nil {
					t.Errorf("%s %q came back as %q, %v", a.name, s[a.name], text, err)
				}
			}
		}
	})
}

// What is reserved in the header of a message is zero, whatever lies in memory.
func TestGenlHeader(t *testing.T) {
	if got := (genlHeader{7, 1}).Serialize(); !bytes.Equal(got, []byte{7, 1, 0, 0}) {
		t.Errorf("got % x", got)
	}
}
