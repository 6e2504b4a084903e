// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package maddr reads and adds the static multicast addresses of links, as "ip
// maddr" does: link layer groups that an administrator has an interface receive.
// rtnetlink does not have them.
package maddr

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

// Static lists the static addresses of a namespace's links by ifindex, sorted,
// lower case.
func Static(namespace int) (map[int][]string, error) {
	var list map[int][]string
	err := netns.Do(namespace, func() error {
		// Not /proc/net, which shows the namespace of the process's first thread.
		f, err := os.Open("/proc/thread-self/net/dev_mcast")
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		list, err = parse(f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list static multicast addresses: %w", err)
	}
	return list, nil
}

// parse reads lines such as (net/core/net-procfs.c, dev_mc_seq_show)
//
//	3    nic0            1     1     01005e000005
//
// of ifindex, name, users, whether one of them is the administrator, address. A
// name has no blanks.
func parse(r io.Reader) (map[int][]string, error) {
	list := map[int][]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 5 {
			return nil, fmt.Errorf("line %q has %d words, want 5", lines.Text(), len(words))
		}
		if words[3] == "0" {
			continue
		}
		index, err := strconv.Atoi(words[0])
		if err != nil {
			return nil, fmt.Errorf("line %q: its ifindex: %w", lines.Text(), err)
		}
		address, err := hex.DecodeString(words[4])
		if err != nil {
			return nil, fmt.Errorf("line %q: its address: %w", lines.Text(), err)
		}
		list[index] = append(list[index], net.HardwareAddr(address).String())
	}
	for _, of := range list {
		slices.Sort(of)
	}
	return list, lines.Err()
}

// request is struct ifreq with a struct sockaddr (netdevice(7)): the kernel
// reads as many bytes of the address as the link's have.
type request struct {
	name    [unix.IFNAMSIZ]byte
	family  uint16 // AF_UNSPEC
	address [22]byte
}

// Add adds static addresses to a link. One that is there is no error.
func Add(namespace int, ifname string, addresses []string) error {
	err := netns.Do(namespace, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		for _, address := range addresses {
			if err := add(fd, ifname, address); err != nil {
				return fmt.Errorf("%s: %w", address, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add static multicast addresses to interface %s: %w", ifname, err)
	}
	return nil
}

func add(fd int, ifname, address string) error {
	mac, err := net.ParseMAC(address)
	if err != nil {
		return err
	}
	var r request
	if len(ifname) >= len(r.name) {
		return unix.ENODEV
	}
	copy(r.name[:], ifname)
	copy(r.address[:], mac)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDMULTI, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return errno
	}
	return nil
}
