// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package inventory

import (
	"context"
	"errors"
	"net/netip"
)

// Netlink is Linux's alone.
type Netlink struct{}

// OpenNetlink says that there is none here.
func OpenNetlink(int, []netip.Addr) (*Netlink, error) {
	return nil, errors.New("this host's links: plumbline reads them on Linux only; want --node NAME, --machine NAME or --sysfs DIR")
}

// Links lists none.
func (*Netlink) Links(context.Context) ([]LinkFacts, error) { return nil, errors.ErrUnsupported }

// Subscribe never hears of anything.
func (*Netlink) Subscribe(context.Context) (<-chan struct{}, error) {
	return nil, errors.ErrUnsupported
}

// Close has nothing to close.
func (*Netlink) Close() {}
