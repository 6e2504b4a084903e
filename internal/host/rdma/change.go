// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

// Move takes an RDMA device from one namespace to another, which the kernel
// allows in exclusive mode. Everything that uses the device ends.
func Move(from int, name string, to int) error {
	if err := move(from, name, to); err != nil {
		return fmt.Errorf("move RDMA device %s to another network namespace: %w", name, err)
	}
	return nil
}

func move(from int, name string, to int) error {
	c, err := dial(from)
	if err != nil {
		return err
	}
	defer c.close()
	devices, err := c.devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Name == name {
			_, err := c.execute(nl.RDMA_NLDEV_CMD_SET, unix.NLM_F_ACK,
				nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(d.Index)),
				nl.NewRtAttr(nl.RDMA_NLDEV_NET_NS_FD, nl.Uint32Attr(uint32(to))))
			return err
		}
	}
	return errors.New("it is not in this one")
}

// SetNamespaceMode sets the mode for all namespaces. The kernel refuses with EBUSY where
// there is another namespace than the first (drivers/infiniband/core/device.c,
// rdma_compatdev_set).
func SetNamespaceMode(m Mode) error {
	c, err := dial(netns.Current)
	if err == nil {
		defer c.close()
		shared := []byte{0}
		if m == Shared {
			shared[0] = 1
		}
		_, err = c.execute(nl.RDMA_NLDEV_CMD_SYS_SET, unix.NLM_F_ACK, nl.NewRtAttr(nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, shared))
	}
	if err != nil {
		return fmt.Errorf("set RDMA namespace mode %s: %w", m, err)
	}
	return nil
}

// AddSoftware makes an RDMA device of a kind, such as rxe, on an interface. It
// is no error when there is one of that name which stays: the kernel ends the device of an
// interface that left its namespace some time later (drivers/infiniband/core/device.c,
// ib_unregister_device_queued).
func AddSoftware(namespace int, name, kind, ifname string) error {
	if err := addSoftware(namespace, name, kind, ifname); err != nil {
		return fmt.Errorf("add RDMA device %s of kind %s on interface %s: %w", name, kind, ifname, err)
	}
	return nil
}

func addSoftware(namespace int, name, kind, ifname string) error {
	c, err := dial(namespace)
	if err != nil {
		return err
	}
	defer c.close()
	for tries := 1; ; tries++ {
		_, err = c.execute(nl.RDMA_NLDEV_CMD_NEWLINK, unix.NLM_F_ACK,
			nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated(name)),
			nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_LINK_TYPE, nl.ZeroTerminated(kind)),
			nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_NDEV_NAME, nl.ZeroTerminated(ifname)))
		// EEXIST: the interface has a device. ENFILE: one that ends has the name still
		// (assign_name), and no interface any more.
		if !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENFILE) {
			return err
		}
		if errors.Is(err, unix.EEXIST) && tries > staysAfter {
			// Of this name, or of another one.
			devices, listErr := c.devices()
			if listErr != nil {
				return listErr
			}
			if slices.ContainsFunc(devices, func(d Device) bool { return d.Name == name && d.Kind == kind }) {
				return nil
			}
		}
		if tries == mostTries {
			return err
		}
		time.Sleep(staysEvery)
	}
}

// A software device that is there this often, this far apart, stays.
const (
	staysAfter = 4
	staysEvery = 50 * time.Millisecond
	// mostTries are enough for one that ends on a busy host.
	mostTries = 60
)
