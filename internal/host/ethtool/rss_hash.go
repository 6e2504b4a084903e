// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// How received packets are spread over queues is set by ioctl: netlink takes it
// since Linux 6.17 only (include/uapi/linux/ethtool.h).

// hashGroup is the hash of received packets, struct ethtool_rxfh: the table
// that leads to a queue, the key, the function and the transformation of what
// is hashed.
var hashGroup = group{
	name: "hash",
	read: func(k kernel, ifname string) (Settings, error) {
		h, err := readHash(k, ifname)
		if err != nil {
			return nil, err
		}
		s := Settings{"function": strconv.Itoa(int(h[hashFunction])), "transformation": strconv.Itoa(int(h[hashTransformation]))}
		switch table := h.table(); {
		case len(table) == 0:
		case isDefault(k, ifname, table):
			s["table"] = defaultTable
		default:
			s["table"] = hex.EncodeToString(table)
		}
		if key := h.key(); len(key) > 0 {
			s["key"] = hex.EncodeToString(key)
		}
		return s, nil
	},
	write: func(k kernel, ifname string, differ []string, want, _ Settings) error {
		now, err := readHash(k, ifname)
		if err != nil {
			return err
		}
		h, err := now.change(differ, want)
		if err != nil {
			return err
		}
		return k.ioctl(unix.SIOCETHTOOL, ifname, h)
	},
}

// hash is struct ethtool_rxfh: command, context, size of the table in words,
// size of the key in bytes, function, transformation, and both behind it.
type hash []byte

const (
	hashTableSize, hashKeySize       = 8, 12
	hashFunction, hashTransformation = 16, 17
	hashLen                          = 24

	keepTable = 1<<32 - 1 // ETH_RXFH_INDIR_NO_CHANGE
	longest   = 1 << 16   // of a table or a key, which no driver comes near
)

func newHash(command, words, bytes uint32) hash {
	h := make(hash, hashLen+4*words+bytes)
	binary.NativeEndian.PutUint32(h, command)
	binary.NativeEndian.PutUint32(h[hashTableSize:], words)
	binary.NativeEndian.PutUint32(h[hashKeySize:], bytes)
	return h
}

// readHash reads the sizes, and then the whole.
func readHash(k kernel, ifname string) (hash, error) {
	h := newHash(unix.ETHTOOL_GRSSH, 0, 0)
	if err := k.ioctl(unix.SIOCETHTOOL, ifname, h); err != nil {
		return nil, err
	}
	words, bytes := binary.NativeEndian.Uint32(h[hashTableSize:]), binary.NativeEndian.Uint32(h[hashKeySize:])
	if words > longest || bytes > longest {
		return nil, fmt.Errorf("a table of %d words and a key of %d bytes", words, bytes)
	}
	h = newHash(unix.ETHTOOL_GRSSH, words, bytes)
	if err := k.ioctl(unix.SIOCETHTOOL, ifname, h); err != nil {
		return nil, err
	}
	return h, nil
}

func (h hash) table() []byte {
	return h[hashLen:][:4*binary.NativeEndian.Uint32(h[hashTableSize:])]
}

func (h hash) key() []byte { return h[hashLen+len(h.table()):] }

// defaultTable is the kernel's own, which follows the number of channels. The same
// table set explicitly would count as the administrator's, and keep the number of
// channels from changing (net/ethtool/ioctl.c, ethtool_set_rxfh).
const defaultTable = "default"

// change is the request that changes what differs, and nothing else.
func (h hash) change(differ []string, want Settings) (hash, error) {
	var table, key []byte
	var err error
	words := uint32(keepTable)
	switch {
	case !slices.Contains(differ, "table"):
	case want["table"] == defaultTable:
		words = 0
	default:
		if table, err = hex.DecodeString(want["table"]); err != nil {
			return nil, fmt.Errorf("table: %w", err)
		}
		words = uint32(len(table) / 4)
	}
	if slices.Contains(differ, "key") {
		if key, err = hex.DecodeString(want["key"]); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	r := newHash(unix.ETHTOOL_SRSSH, 0, uint32(len(table)+len(key)))
	binary.NativeEndian.PutUint32(r[hashTableSize:], words)
	binary.NativeEndian.PutUint32(r[hashKeySize:], uint32(len(key)))
	copy(r[hashLen:], slices.Concat(table, key))
	// 0 keeps the function, but ends the transformation.
	r[hashTransformation] = h[hashTransformation]
	for name, at := range map[string]int{"function": hashFunction, "transformation": hashTransformation} {
		if !slices.Contains(differ, name) {
			continue
		}
		n, err := strconv.ParseUint(want[name], 10, 8)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r[at] = byte(n)
	}
	return r, nil
}

// isDefault tells whether a table is what the kernel makes for the queues that
// there are (ethtool_rxfh_indir_default).
func isDefault(k kernel, ifname string, table []byte) bool {
	queues := newRules(unix.ETHTOOL_GRXRINGS, 0)
	if k.ioctl(unix.SIOCETHTOOL, ifname, queues) != nil {
		return false
	}
	n := binary.NativeEndian.Uint64(queues[dataAt:])
	for i := range len(table) / 4 {
		if n == 0 || uint64(binary.NativeEndian.Uint32(table[4*i:])) != uint64(i)%n {
			return false
		}
	}
	return true
}
