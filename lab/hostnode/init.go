// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/lab/vm/guest/boot"
)

// stateDir is where the node's folder on the host appears in the node.
const stateDir = "/plumblab"

// Init is the node's first process: it makes the file system the node's own,
// and reaps what ends. It returns only when it cannot go on.
func Init(dir string, out io.Writer) error {
	plan, err := readPlan(dir)
	if err != nil {
		return err
	}
	if err := enterRoot(dir); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(plan.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return boot.Supervised(out, Command, "--supervise", stateDir)
}

// Supervise gives the node its network and runs its services.
func Supervise(dir string, out io.Writer) error {
	plan, err := readPlan(dir)
	if err != nil {
		return err
	}
	if err := setNetwork(plan); err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	runner := boot.Runner{Say: say, Log: func(service string) (*os.File, error) {
		return os.OpenFile(filepath.Join(dir, logsDir, service+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	}}
	if err := runner.Run(plan.Services); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, startedFile), nil, 0o644); err != nil {
		return err
	}
	select {}
}

// setNetwork makes the node's links: the way to the API server, and stand-ins
// for NICs.
func setNetwork(p Plan) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	err = errors.Join(netlink.LinkSetUp(lo), addAddress(lo, hostAddress+"/32"), addPair(management, nodeAddress+"/24"))
	for i, name := range p.StandIns {
		err = errors.Join(err, addPair(name, railAddress(i)))
	}
	return errors.Join(err, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

// railAddress is that of a stand-in: a network of its own for each, as every rail
// of a fabric has.
func railAddress(i int) string { return fmt.Sprintf("10.33.%d.2/24", i) }

// ResetScript sets stand-ins up that are down, and gives each its address where it
// has none.
func ResetScript(standIns []string) string {
	var script strings.Builder
	for i, name := range standIns {
		fmt.Fprintf(&script, "ip -o link show dev %[1]s up | grep -q . || ip link set %[1]s up || exit 1\n"+
			"ip -o -4 addr show dev %[1]s | grep -q . || ip addr add %[2]s dev %[1]s || exit 1\n", name, railAddress(i))
	}
	return script.String()
}

// addPair makes a link with its far end, both up: a NIC without a carrier is
// taken for a faulty one.
func addPair(name, address string) error {
	far := farEnd + name
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: far}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make link %s: %w", name, err)
	}
	for _, end := range []string{name, far} {
		link, err := netlink.LinkByName(end)
		if err != nil {
			return fmt.Errorf("find link %s: %w", end, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", end, err)
		}
		if end == name {
			if err := addAddress(link, address); err != nil {
				return err
			}
		}
	}
	return nil
}

func addAddress(link netlink.Link, address string) error {
	ip, network, err := net.ParseCIDR(address)
	if err != nil {
		return err
	}
	network.IP = ip
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network}); err != nil {
		return fmt.Errorf("give %s address %s: %w", link.Attrs().Name, address, err)
	}
	return nil
}
