// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/lab/vm/guest"
)

// keepRDMA keeps a soft RoCE device on every NIC that shall have one, for as
// long as the guest runs. The kernel deletes the device when its NIC moves to
// another network namespace (drivers/infiniband/core/device.c, the unregister
// event), and nothing brings it back when the NIC returns; this does. NICs are
// known by PCI address: they may return under any name.
func keepRDMA(nics []guest.NIC, say func(string, ...any)) error {
	updates := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribe(updates, nil); err != nil {
		return fmt.Errorf("watch links: %w", err)
	}
	for _, n := range nics {
		if err := ensureRDMA(n); err != nil {
			return err
		}
	}
	go func() {
		// The kernel deletes a device in its own time: once more when all is quiet.
		again := time.NewTimer(quiet)
		for {
			select {
			case <-updates:
				again.Reset(quiet)
			case <-again.C:
			}
			for _, n := range nics {
				if err := ensureRDMA(n); err != nil {
					say("%v", err)
				}
			}
		}
	}()
	return nil
}

// quiet is how long no link has changed when RDMA devices are looked at again.
const quiet = time.Second

// ensureRDMA adds the NIC's RDMA device where NIC and no device are there.
func ensureRDMA(n guest.NIC) error {
	if n.RDMA == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join("/sys/class/infiniband", n.RDMA)); err == nil {
		return nil
	}
	// sysfs shows the interfaces of the namespace it was mounted in alone, so
	// a NIC in a pod has none here.
	names, err := os.ReadDir(filepath.Join("/sys/bus/pci/devices", n.PCI, "net"))
	if err != nil || len(names) == 0 {
		return nil
	}
	return rdma.AddSoftware(netns.Current, n.RDMA, "rxe", names[0].Name())
}
