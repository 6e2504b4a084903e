// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelEvents is the multicast group of the kernel's own messages; udev sends
// to another one (lib/kobject_uevent.c).
const kernelEvents = 1

// maxEvent bounds a message: its environment has at most 2 KiB
// (UEVENT_BUFFER_SIZE, include/linux/kobject.h).
const maxEvent = 8192

// SubscribeUevents sends a value when a device that this package reads was
// added, removed or changed: RDMA devices, PCI functions and CPUs, of which
// rtnetlink sends no events. Changes are coalesced until the value is received. The
// channel is closed when the kernel dropped events, or when ctx ends. Events are those
// of the calling thread's network namespace.
func SubscribeUevents(ctx context.Context) (<-chan struct{}, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open uevent socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelEvents}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind uevent socket: %w", err), unix.Close(fd))
	}
	socket := os.NewFile(uintptr(fd), "uevents")
	conn, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open uevent socket: %w", err), socket.Close())
	}
	events := make(chan struct{}, 1)
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	go func() {
		defer close(events)
		defer socket.Close()
		defer stop()
		receiveUevents(conn, events)
	}()
	return events, nil
}

// receiveUevents returns at the first error: the socket was closed, or the
// kernel dropped events (ENOBUFS).
func receiveUevents(conn syscall.RawConn, events chan<- struct{}) {
	buf := make([]byte, maxEvent)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if errors.Is(failed, unix.EINTR) {
			continue
		}
		if err != nil || failed != nil {
			return
		}
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 || !concerns(buf[:n]) {
			continue
		}
		select {
		case events <- struct{}{}:
		default: // a value is pending, for this change too
		}
	}
}

// concerns says whether an event is of a subsystem that is read here.
// A message is "ACTION@PATH" and KEY=VALUE pairs, each ended by a zero byte.
func concerns(message []byte) bool {
	for field := range bytes.SplitSeq(message, []byte{0}) {
		if subsystem, ok := bytes.CutPrefix(field, []byte("SUBSYSTEM=")); ok {
			return slices.Contains([]string{
				"net", "infiniband", "infiniband_verbs", "infiniband_mad", "pci", "drm", "cpu", "node",
			}, string(subsystem))
		}
	}
	return false
}
