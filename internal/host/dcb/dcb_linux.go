// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dcb

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Attributes of an answer, and the selector of a DSCP (include/uapi/linux/dcbnl.h).
const (
	attrIEEE      = 13 // DCB_ATTR_IEEE
	attrPFC       = 2  // DCB_ATTR_IEEE_PFC
	attrTable     = 3  // DCB_ATTR_IEEE_APP_TABLE
	attrEntry     = 1  // DCB_ATTR_IEEE_APP
	selectorDSCP  = 5  // IEEE_8021QAZ_APP_SEL_DSCP
	headerSize    = 4  // struct dcbmsg
	pfcSize       = 136
	entrySize     = 4 // struct dcb_app
	maxPriority   = 7
	maxDSCP       = 63
	offsetEnabled = 1 // of struct ieee_pfc, pfc_en
)

// Read asks the driver of an interface in the network namespace of the caller.
func Read(name string) (Settings, error) {
	conn, err := rtnl.Dial(netns.Current)
	if err != nil {
		return Settings{}, err
	}
	defer conn.Close()
	return read(conn, name)
}

func read(conn *rtnl.Conn, name string) (Settings, error) {
	body, err := conn.DCB(name)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return Settings{}, errors.New("its driver does not tell of DCB: not supported")
	}
	if err != nil {
		return Settings{}, fmt.Errorf("read DCB: %w", err)
	}
	s, err := decode(body)
	if err != nil {
		return Settings{}, fmt.Errorf("read DCB: %w", err)
	}
	return s, nil
}

// decode reads the answer to DCB_CMD_IEEE_GET.
func decode(body []byte) (Settings, error) {
	var s Settings
	if len(body) < headerSize {
		return s, fmt.Errorf("an answer of %d bytes, want at least %d", len(body), headerSize)
	}
	err := rtnl.EachAttribute(body[headerSize:], func(kind uint16, value []byte) error {
		if kind != attrIEEE {
			return nil
		}
		return rtnl.EachAttribute(value, s.take)
	})
	if err != nil {
		return Settings{}, err
	}
	return s, nil
}

func (s *Settings) take(kind uint16, value []byte) error {
	switch kind {
	case attrPFC:
		if len(value) < pfcSize {
			return fmt.Errorf("flow control of %d bytes, want at least %d", len(value), pfcSize)
		}
		s.FlowControl = &value[offsetEnabled]
	case attrTable:
		return rtnl.EachAttribute(value, s.takeEntry)
	}
	return nil
}

func (s *Settings) takeEntry(kind uint16, value []byte) error {
	if kind != attrEntry {
		return nil // of the table of an older standard
	}
	if len(value) < entrySize {
		return fmt.Errorf("an entry of %d bytes, want at least %d", len(value), entrySize)
	}
	if value[0] != selectorDSCP {
		return nil // an EtherType or a port
	}
	p := Priority{DSCP: binary.NativeEndian.Uint16(value[2:]), Priority: value[1]}
	if p.DSCP > maxDSCP || p.Priority > maxPriority {
		return fmt.Errorf("DSCP %d has priority %d, want at most %d and %d", p.DSCP, p.Priority, maxDSCP, maxPriority)
	}
	s.DSCP = append(s.DSCP, p)
	return nil
}
