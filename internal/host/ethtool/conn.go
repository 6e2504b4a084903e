// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Conn is sockets in one network namespace.
type Conn struct {
	handle *ethtool.Ethtool
	kernel kernel
	// names are those of features, by bit; nil before they are read.
	names atomic.Pointer[[]string]
	calls atomic.Int64
	close func()
}

// Dial opens a socket in the network namespace of a descriptor.
func Dial(namespace int) (*Conn, error) {
	var c Conn
	err := netns.Do(namespace, func() (err error) {
		if c.handle, err = ethtool.NewEthtool(); err != nil {
			return err
		}
		s, err := openSocket()
		if err != nil {
			c.handle.Close()
			return err
		}
		c.kernel, c.close = s, s.Close
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open ethtool socket: %w", err)
	}
	return &c, nil
}

// Close closes the sockets.
func (c *Conn) Close() {
	c.handle.Close()
	c.close()
}

// Counts are the Conn's counts so far. Messages counts requests, of a few messages
// each.
func (c *Conn) Counts() rtnl.Counts {
	return rtnl.Counts{Sockets: 2, Setns: 2, Messages: c.calls.Load()}
}

// ask makes a request about an interface, and names both in the error.
func ask[T any](c *Conn, what, ifname string, request func(ifname string) (T, error)) (T, error) {
	var answer T
	// The library would truncate a longer name to what may be another interface's.
	err := error(unix.ENODEV)
	if ifname != "" && len(ifname) < unix.IFNAMSIZ {
		c.calls.Add(1)
		answer, err = request(ifname)
	}
	if err != nil {
		return answer, fmt.Errorf("%s of interface %q: %w", what, ifname, err)
	}
	return answer, nil
}

// LinkSpeed is the speed of the link in Mbit/s; not ok when the driver does not
// know, as without a carrier.
func (c *Conn) LinkSpeed(ifname string) (mbits int, ok bool, err error) {
	speed, err := ask(c, "read speed", ifname, func(ifname string) (uint32, error) {
		var command ethtool.EthtoolCmd
		return c.handle.CmdGet(&command, ifname)
	})
	// SPEED_UNKNOWN is -1, and -1 in the halves of older drivers.
	known := speed != 0 && speed != 1<<16-1 && speed != 1<<32-1
	if errors.Is(err, unix.EOPNOTSUPP) || err == nil && !known {
		return 0, false, nil
	}
	return int(speed), err == nil, err
}

// UnknownError says that an interface lacks features or flags.
type UnknownError struct {
	// What is "feature" or "private flag".
	What string
	// Names are those it lacks, Known all that it has, both sorted.
	Names, Known []string
}

// Error names both.
func (e *UnknownError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		known = "it has " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("the interface has no %s %s: %s", e.What, quoted(e.Names), known)
}

// FixedError says that features are other than wanted and cannot be changed.
type FixedError struct {
	// Names are sorted.
	Names []string
}

// Error names them.
func (e *FixedError) Error() string {
	return fmt.Sprintf("the driver does not let feature %s be changed", quoted(e.Names))
}

// NotAppliedError says that the kernel acknowledged a request, and did not carry it out.
type NotAppliedError struct {
	Interface string
	// What is "feature" or "private flag", and Names those that are not as
	// wanted, sorted.
	What  string
	Names []string
}

// Error names them.
func (e *NotAppliedError) Error() string {
	return fmt.Sprintf("interface %q: the kernel did not set %s %s: another setting may keep it from acting",
		e.Interface, e.What, quoted(e.Names))
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }
