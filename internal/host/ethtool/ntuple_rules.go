// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ntupleGroup is the rules that lead received packets to queues, by where they
// stand in the device's table, and how many they are.
var ntupleGroup = group{
	name: "ntuple",
	read: readRules,
	write: func(k kernel, ifname string, _ []string, want, have Settings) error {
		var errs []error
		for _, place := range sortedKeys(have) {
			if place == ruleCount || want[place] == have[place] {
				continue
			}
			if err := changeRule(k, ifname, unix.ETHTOOL_SRXCLSRLDEL, have[place]); err != nil {
				errs = append(errs, fmt.Errorf("delete rule %s: %w", place, err))
			}
		}
		for _, place := range sortedKeys(want) {
			if place == ruleCount || want[place] == have[place] {
				continue
			}
			if err := changeRule(k, ifname, unix.ETHTOOL_SRXCLSRLINS, want[place]); err != nil {
				errs = append(errs, fmt.Errorf("insert rule %s: %w", place, err))
			}
		}
		return errors.Join(errs...)
	},
}

const (
	ruleCount = "rules"

	// struct ethtool_rxnfc: command, flow type, data (RXH_* bits of fields),
	// struct ethtool_rx_flow_spec, the number of rules or the hash's context,
	// places. The specification ends with the rule's place.
	flowTypeAt, dataAt                 = 4, 8
	ruleAt, placeAt, countAt, placesAt = 16, 16 + 160, 184, 188
	rulesLen                           = 192

	mostRules = 1 << 16
)

// newRules is struct ethtool_rxnfc with room for places.
func newRules(command uint32, places int) []byte {
	r := make([]byte, rulesLen+4*places)
	binary.NativeEndian.PutUint32(r, command)
	return r
}

func readRules(k kernel, ifname string) (Settings, error) {
	count := newRules(unix.ETHTOOL_GRXCLSRLCNT, 0)
	if err := k.ioctl(unix.SIOCETHTOOL, ifname, count); err != nil {
		return nil, err
	}
	n := binary.NativeEndian.Uint32(count[countAt:])
	if n > mostRules {
		return nil, fmt.Errorf("%d rules", n)
	}
	s := Settings{ruleCount: strconv.Itoa(int(n))}
	if n == 0 {
		return s, nil
	}
	all := newRules(unix.ETHTOOL_GRXCLSRLALL, int(n))
	binary.NativeEndian.PutUint32(all[countAt:], n)
	if err := k.ioctl(unix.SIOCETHTOOL, ifname, all); err != nil {
		return nil, err
	}
	for i := range min(n, binary.NativeEndian.Uint32(all[countAt:])) {
		place := binary.NativeEndian.Uint32(all[placesAt+4*i:])
		rule := newRules(unix.ETHTOOL_GRXCLSRULE, 0)
		binary.NativeEndian.PutUint32(rule[placeAt:], place)
		if err := k.ioctl(unix.SIOCETHTOOL, ifname, rule); err != nil {
			return nil, fmt.Errorf("rule %d: %w", place, err)
		}
		// What follows is the context of a rule that has one.
		s[strconv.Itoa(int(place))] = strings.TrimRight(hex.EncodeToString(rule[ruleAt:placesAt]), "0")
	}
	return s, nil
}

// changeRule inserts a rule, or deletes it by its place.
func changeRule(k kernel, ifname string, command uint32, rule string) error {
	bytes, err := hex.DecodeString(rule + strings.Repeat("0", max(0, 2*(placesAt-ruleAt)-len(rule))))
	if err != nil {
		return err
	}
	if len(bytes) > placesAt-ruleAt {
		return fmt.Errorf("a rule of %d bytes", len(bytes))
	}
	request := newRules(command, 0)
	copy(request[ruleAt:], bytes)
	return k.ioctl(unix.SIOCETHTOOL, ifname, request)
}

// flowTypes are those whose hashed fields can be set.
var flowTypes = []struct {
	name   string
	number uint32
}{
	{"tcp4", unix.TCP_V4_FLOW}, {"udp4", unix.UDP_V4_FLOW}, {"sctp4", 3}, {"ah-esp4", 4},
	{"tcp6", unix.TCP_V6_FLOW}, {"udp6", unix.UDP_V6_FLOW}, {"sctp6", 7}, {"ah-esp6", 8},
	{"ah4", 9}, {"esp4", unix.ESP_V4_FLOW}, {"ah6", 11}, {"esp6", unix.ESP_V6_FLOW},
}

// fieldsGroup is which fields of a packet are hashed, by the type of flow.
var fieldsGroup = group{
	name: "fields",
	read: func(k kernel, ifname string) (Settings, error) {
		s := Settings{}
		for _, flow := range flowTypes {
			request := newRules(unix.ETHTOOL_GRXFH, 0)
			binary.NativeEndian.PutUint32(request[flowTypeAt:], flow.number)
			err := k.ioctl(unix.SIOCETHTOOL, ifname, request)
			if errors.Is(err, unix.EOPNOTSUPP) {
				return s, nil // of any type
			}
			if err == nil { // a driver need not support all types
				s[flow.name] = strconv.FormatUint(binary.NativeEndian.Uint64(request[dataAt:]), 10)
			}
		}
		return s, nil
	},
	write: func(k kernel, ifname string, differ []string, want, _ Settings) error {
		var errs []error
		for _, flow := range flowTypes {
			if !slices.Contains(differ, flow.name) {
				continue
			}
			fields, err := strconv.ParseUint(want[flow.name], 10, 64)
			if err == nil {
				request := newRules(unix.ETHTOOL_SRXFH, 0)
				binary.NativeEndian.PutUint32(request[flowTypeAt:], flow.number)
				binary.NativeEndian.PutUint64(request[dataAt:], fields)
				err = k.ioctl(unix.SIOCETHTOOL, ifname, request)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", flow.name, err))
			}
		}
		return errors.Join(errs...)
	},
}
