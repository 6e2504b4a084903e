// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// kind is how an attribute holds its value.
type kind int

const (
	number kind = iota // four bytes
	octet              // one byte
	set                // a bit set of the compact form
)

// attribute is a setting of a message: the same attribute is in the answer and in the
// request that sets it.
type attribute struct {
	name   string
	number int
	kind   kind
	// unknown is the number that stands for no value; 0 where there is none such.
	unknown uint32
}

// messageGroups are the groups that one pair of messages reads and sets
// (include/uapi/linux/ethtool_netlink.h).
var messageGroups = []group{
	messages("channels", unix.ETHTOOL_MSG_CHANNELS_GET, unix.ETHTOOL_MSG_CHANNELS_SET, []attribute{
		{"rx", unix.ETHTOOL_A_CHANNELS_RX_COUNT, number, 0},
		{"tx", unix.ETHTOOL_A_CHANNELS_TX_COUNT, number, 0},
		{"other", unix.ETHTOOL_A_CHANNELS_OTHER_COUNT, number, 0},
		{"combined", unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT, number, 0},
	}),
	messages("rings", unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_MSG_RINGS_SET, []attribute{
		{"rx", unix.ETHTOOL_A_RINGS_RX, number, 0},
		{"rx-mini", unix.ETHTOOL_A_RINGS_RX_MINI, number, 0},
		{"rx-jumbo", unix.ETHTOOL_A_RINGS_RX_JUMBO, number, 0},
		{"tx", unix.ETHTOOL_A_RINGS_TX, number, 0},
		{"rx-buf-len", unix.ETHTOOL_A_RINGS_RX_BUF_LEN, number, 0},
		{"tcp-data-split", unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT, octet, 0},
		{"cqe-size", unix.ETHTOOL_A_RINGS_CQE_SIZE, number, 0},
		{"tx-push", unix.ETHTOOL_A_RINGS_TX_PUSH, octet, 0},
		{"rx-push", unix.ETHTOOL_A_RINGS_RX_PUSH, octet, 0},
		{"tx-push-buf-len", unix.ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN, number, 0},
		{"hds-thresh", unix.ETHTOOL_A_RINGS_HDS_THRESH, number, 0},
	}),
	coalesceGroup,
	messages("fec", unix.ETHTOOL_MSG_FEC_GET, unix.ETHTOOL_MSG_FEC_SET, []attribute{
		{"modes", fecModes, set, 0},
		{"auto", fecAuto, octet, 0},
	}),
	messages("wol", unix.ETHTOOL_MSG_WOL_GET, unix.ETHTOOL_MSG_WOL_SET, []attribute{
		{"modes", unix.ETHTOOL_A_WOL_MODES, set, 0},
	}),
	eeeGroup, pauseGroup, linkGroup,
	reportedOfLink(messages("port", unix.ETHTOOL_MSG_LINKINFO_GET, unix.ETHTOOL_MSG_LINKINFO_SET, []attribute{
		{"mdix", linkInfoMDIX, octet, 0},
	})),
}

// Attributes that x/sys does not name.
const (
	fecModes     = 2 // ETHTOOL_A_FEC_MODES
	fecAuto      = 3 // ETHTOOL_A_FEC_AUTO
	linkInfoMDIX = 5 // ETHTOOL_A_LINKINFO_TP_MDIX_CTRL

	coalesceAggrMaxBytes  = 26 // ETHTOOL_A_COALESCE_TX_AGGR_MAX_BYTES
	coalesceAggrMaxFrames = 27 // ETHTOOL_A_COALESCE_TX_AGGR_MAX_FRAMES
	coalesceAggrTime      = 28 // ETHTOOL_A_COALESCE_TX_AGGR_TIME_USECS
)

// coalesceGroup does not compare the values that adaptive moderation changes by itself.
var coalesceGroup = func() group {
	g := messages("coalesce", unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_MSG_COALESCE_SET, []attribute{
		{"adaptive-rx", unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, octet, 0},
		{"adaptive-tx", unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX, octet, 0},
		{"rx-usecs", unix.ETHTOOL_A_COALESCE_RX_USECS, number, 0},
		{"rx-frames", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES, number, 0},
		{"rx-usecs-irq", unix.ETHTOOL_A_COALESCE_RX_USECS_IRQ, number, 0},
		{"rx-frames-irq", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_IRQ, number, 0},
		{"tx-usecs", unix.ETHTOOL_A_COALESCE_TX_USECS, number, 0},
		{"tx-frames", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES, number, 0},
		{"tx-usecs-irq", unix.ETHTOOL_A_COALESCE_TX_USECS_IRQ, number, 0},
		{"tx-frames-irq", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_IRQ, number, 0},
		{"stats-block-usecs", unix.ETHTOOL_A_COALESCE_STATS_BLOCK_USECS, number, 0},
		{"pkt-rate-low", unix.ETHTOOL_A_COALESCE_PKT_RATE_LOW, number, 0},
		{"low-rx-usecs", unix.ETHTOOL_A_COALESCE_RX_USECS_LOW, number, 0},
		{"low-rx-frames", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_LOW, number, 0},
		{"low-tx-usecs", unix.ETHTOOL_A_COALESCE_TX_USECS_LOW, number, 0},
		{"low-tx-frames", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_LOW, number, 0},
		{"pkt-rate-high", unix.ETHTOOL_A_COALESCE_PKT_RATE_HIGH, number, 0},
		{"high-rx-usecs", unix.ETHTOOL_A_COALESCE_RX_USECS_HIGH, number, 0},
		{"high-rx-frames", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_HIGH, number, 0},
		{"high-tx-usecs", unix.ETHTOOL_A_COALESCE_TX_USECS_HIGH, number, 0},
		{"high-tx-frames", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_HIGH, number, 0},
		{"sample-interval", unix.ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL, number, 0},
		{"cqe-mode-tx", unix.ETHTOOL_A_COALESCE_USE_CQE_MODE_TX, octet, 0},
		{"cqe-mode-rx", unix.ETHTOOL_A_COALESCE_USE_CQE_MODE_RX, octet, 0},
		{"tx-aggr-max-bytes", coalesceAggrMaxBytes, number, 0},
		{"tx-aggr-max-frames", coalesceAggrMaxFrames, number, 0},
		{"tx-aggr-time-usecs", coalesceAggrTime, number, 0},
	})
	g.aside = func(name string, all Settings) bool {
		return strings.HasPrefix(name, "rx-") && all["adaptive-rx"] == "1" ||
			strings.HasPrefix(name, "tx-") && !strings.HasPrefix(name, "tx-aggr") && all["adaptive-tx"] == "1"
	}
	return g
}()

var eeeGroup = reportedOfLink(messages("eee", unix.ETHTOOL_MSG_EEE_GET, unix.ETHTOOL_MSG_EEE_SET, []attribute{
	{"modes", unix.ETHTOOL_A_EEE_MODES_OURS, set, 0},
	{"enabled", unix.ETHTOOL_A_EEE_ENABLED, octet, 0},
	{"tx-lpi", unix.ETHTOOL_A_EEE_TX_LPI_ENABLED, octet, 0},
	{"tx-lpi-timer", unix.ETHTOOL_A_EEE_TX_LPI_TIMER, number, 0},
}))

// pauseGroup does not compare receive and transmit while pause is negotiated: some
// drivers report the result. What is advertised is among the link's modes.
var pauseGroup = func() group {
	g := reportedOfLink(messages("pause", unix.ETHTOOL_MSG_PAUSE_GET, unix.ETHTOOL_MSG_PAUSE_SET, []attribute{
		{"autoneg", unix.ETHTOOL_A_PAUSE_AUTONEG, octet, 0},
		{"rx", unix.ETHTOOL_A_PAUSE_RX, octet, 0},
		{"tx", unix.ETHTOOL_A_PAUSE_TX, octet, 0},
	}))
	g.aside = func(name string, all Settings) bool { return name != "autoneg" && all["autoneg"] == "1" }
	return g
}()

// linkGroup does not compare what is negotiated.
var linkGroup = func() group {
	g := reportedOfLink(messages("link", unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_MSG_LINKMODES_SET, []attribute{
		{"autoneg", unix.ETHTOOL_A_LINKMODES_AUTONEG, octet, 0},
		{"modes", unix.ETHTOOL_A_LINKMODES_OURS, set, 0},
		{"speed", unix.ETHTOOL_A_LINKMODES_SPEED, number, 1<<32 - 1},
		{"duplex", unix.ETHTOOL_A_LINKMODES_DUPLEX, octet, 1<<8 - 1},
		{"lanes", unix.ETHTOOL_A_LINKMODES_LANES, number, 0},
		{"master-slave", unix.ETHTOOL_A_LINKMODES_MASTER_SLAVE_CFG, octet, 0},
	}))
	g.aside = func(name string, all Settings) bool {
		switch name {
		case "speed", "duplex", "lanes":
			return all["autoneg"] == "1"
		case "modes":
			return all["autoneg"] == "0"
		}
		return false
	}
	return g
}()

func reportedOfLink(g group) group {
	g.reported = true
	return g
}

// messages is the group of a pair of messages.
func messages(name string, get, put uint8, attributes []attribute) group {
	return group{
		name: name,
		read: func(k kernel, ifname string) (Settings, error) {
			answer, err := k.get(get, ifname)
			if err != nil {
				return nil, err
			}
			return parseMessage(answer, attributes)
		},
		write: func(k kernel, ifname string, differ []string, want, _ Settings) error {
			var list []*nl.RtAttr
			for _, a := range attributes {
				if !slices.Contains(differ, a.name) {
					continue
				}
				encoded, err := a.encode(want[a.name])
				if err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
				list = append(list, encoded)
			}
			return k.set(put, ifname, list)
		},
	}
}

func parseMessage(answer []byte, attributes []attribute) (Settings, error) {
	s := Settings{}
	err := rtnl.EachAttribute(answer, func(kind uint16, value []byte) error {
		i := slices.IndexFunc(attributes, func(a attribute) bool { return a.number == int(kind) })
		if i < 0 {
			return nil
		}
		text, err := attributes[i].decode(value)
		if err != nil {
			return fmt.Errorf("%s: %w", attributes[i].name, err)
		}
		if text != "" {
			s[attributes[i].name] = text
		}
		return nil
	})
	return s, err
}

// decode is the value as text, empty where there is none.
func (a attribute) decode(value []byte) (string, error) {
	var n uint32
	switch {
	case a.kind == set:
		return decodeSet(value)
	case a.kind == number && len(value) == 4:
		n = binary.NativeEndian.Uint32(value)
	case a.kind == octet && len(value) == 1:
		n = uint32(value[0])
	default:
		return "", fmt.Errorf("a value of %d bytes", len(value))
	}
	if a.unknown != 0 && n == a.unknown {
		return "", nil
	}
	return strconv.FormatUint(uint64(n), 10), nil
}

func (a attribute) encode(text string) (*nl.RtAttr, error) {
	if a.kind == set {
		return encodeSet(a.number, text)
	}
	bits := 32
	if a.kind == octet {
		bits = 8
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return nil, err
	}
	if a.kind == octet {
		return nl.NewRtAttr(a.number, nl.Uint8Attr(uint8(n))), nil
	}
	return nl.NewRtAttr(a.number, nl.Uint32Attr(uint32(n))), nil
}

// decodeSet is the set's bits, and those that can be changed behind a slash
// where the set names them (Documentation/networking/ethtool-netlink.rst, Bit
// sets).
func decodeSet(nested []byte) (string, error) {
	var value, mask string
	err := rtnl.EachAttribute(nested, func(kind uint16, bits []byte) error {
		switch kind {
		case unix.ETHTOOL_A_BITSET_VALUE:
			value = hex.EncodeToString(bits)
		case unix.ETHTOOL_A_BITSET_MASK:
			mask = "/" + hex.EncodeToString(bits)
		}
		return nil
	})
	return value + mask, err
}

func encodeSet(number int, text string) (*nl.RtAttr, error) {
	value, mask, masked := strings.Cut(text, "/")
	bits, err := hex.DecodeString(value)
	if err != nil {
		return nil, err
	}
	nested := nl.NewRtAttr(number|unix.NLA_F_NESTED, nil)
	nested.AddRtAttr(unix.ETHTOOL_A_BITSET_SIZE, nl.Uint32Attr(uint32(8*len(bits))))
	nested.AddRtAttr(unix.ETHTOOL_A_BITSET_VALUE, bits)
	if !masked {
		nested.AddRtAttr(unix.ETHTOOL_A_BITSET_NOMASK, nil)
		return nested, nil
	}
	if bits, err = hex.DecodeString(mask); err != nil {
		return nil, err
	}
	nested.AddRtAttr(unix.ETHTOOL_A_BITSET_MASK, bits)
	return nested, nil
}

// timestampGroup is which packets the hardware timestamps, struct hwtstamp_config:
// flags, transmission, filter of reception
// (Documentation/networking/timestamping.rst).
var timestampGroup = group{
	name: "timestamps",
	read: func(k kernel, ifname string) (Settings, error) {
		config := make([]byte, 12)
		if err := k.ioctl(unix.SIOCGHWTSTAMP, ifname, config); err != nil {
			return nil, err
		}
		return Settings{"config": hex.EncodeToString(config)}, nil
	},
	write: func(k kernel, ifname string, _ []string, want, _ Settings) error {
		config, err := hex.DecodeString(want["config"])
		if err == nil && len(config) != 12 {
			err = fmt.Errorf("a configuration of %d bytes", len(config))
		}
		if err != nil {
			return err
		}
		return k.ioctl(unix.SIOCSHWTSTAMP, ifname, config)
	},
}
