// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

// Subscribe sends a value when a link, address, route, rule or queueing discipline of
// the namespace may have changed. Changes are coalesced until the value is received.
// The channel is closed when the kernel dropped events because they came faster
// than they were read, or when ctx ends; a caller then subscribes again before it
// reads everything.
func Subscribe(ctx context.Context, namespace int) (<-chan struct{}, error) {
	return SubscribeBuffer(ctx, namespace, eventBytes)
}

// SubscribeBuffer is Subscribe with a receive buffer of that size; the kernel rounds up
// to its minimum.
func SubscribeBuffer(ctx context.Context, namespace, bytes int) (<-chan struct{}, error) {
	return subscribe(ctx, namespace, bytes, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
		unix.RTNLGRP_TC)
}

// SubscribeLinks is Subscribe for links alone, such as their carrier.
func SubscribeLinks(ctx context.Context, namespace int) (<-chan struct{}, error) {
	return subscribe(ctx, namespace, eventBytes, unix.RTNLGRP_LINK)
}

// eventBytes is the socket's buffer: some thousand changes of links, which come
// in one burst when a switch restarts or a driver is reset.
const eventBytes = 1 << 20

func subscribe(ctx context.Context, namespace, buffer int, groups ...uint) (<-chan struct{}, error) {
	var socket *nl.NetlinkSocket
	err := netns.Do(namespace, func() (err error) {
		socket, err = nl.Subscribe(unix.NETLINK_ROUTE, groups...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to rtnetlink: %w", err)
	}
	// More than net.core.rmem_max needs CAP_NET_ADMIN; a smaller buffer only
	// overflows earlier.
	if socket.SetReceiveBufferSize(buffer, true) != nil {
		_ = socket.SetReceiveBufferSize(buffer, false)
	}
	events := make(chan struct{}, 1)
	// Closing wakes the reader.
	stop := context.AfterFunc(ctx, socket.Close)
	go func() {
		defer close(events)
		defer socket.Close()
		defer stop()
		for {
			// ENOBUFS is how the kernel says that events were dropped.
			if _, _, err := socket.Receive(); err != nil {
				return
			}
			select {
			case events <- struct{}{}:
			default: // a value is pending, for this change too
			}
		}
	}()
	return events, nil
}
