// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package dhcp asks for an IPv4 address, keeps it and gives it back.
package dhcp

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

type Options struct {
	Hostname string
	Timeout  time.Duration
	Now      func() time.Time
}
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}
type Lease struct {
	Address                  netip.Prefix
	Routes                   []Route
	Acquired, T1, T2, Expiry time.Time
}

var ErrRefused, ErrNoAnswer = errors.New("the DHCP server refuses"), errors.New("this build has no DHCP client")

func Acquire(ctx context.Context, ns int, i string, o Options) (Lease, error) {
	return Lease{}, ErrNoAnswer
}
func Renew(ctx context.Context, ns int, i string, l Lease, o Options) (Lease, error) { return l, nil }
func Release(ctx context.Context, ns int, i string, l Lease) error                   { return nil }
