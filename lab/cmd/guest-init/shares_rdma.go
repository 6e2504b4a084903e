// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
)

// sharePrefix begins the alias that plumbline gives a pod's link on a NIC that is shared.
const sharePrefix = "plumbline-"

// shareRDMA is the RDMA device of a pod's macvlan on a shared NIC; empty for other links.
// Hardware carries such a link's packets by the NIC's own device. Soft RoCE takes packets
// from the link alone that it was made on (drivers/infiniband/sw/rxe/rxe_net.c,
// rxe_udp_encap_recv), so that the link gets a device of its own.
func shareRDMA(l rtnl.Link) string {
	if l.Alias == nil || l.Kind == nil || *l.Kind != "macvlan" {
		return ""
	}
	id, ours := strings.CutPrefix(*l.Alias, sharePrefix)
	if !ours {
		return ""
	}
	return "share_" + id
}

// keepShare makes the RDMA device of a pod's link on a shared NIC. Where devices are of one
// namespace each, there is none, as with hardware.
func keepShare(namespace int, l rtnl.Link) error {
	mode, err := rdma.NamespaceMode(namespace)
	if err != nil || mode != rdma.Shared {
		return err
	}
	return rdma.AddSoftware(namespace, shareRDMA(l), "rxe", l.Name)
}

// CreateContainer gives a container the files of what keepShare made for its pod.
func (k *rdmaKeeper) CreateContainer(_ context.Context, pod *api.PodSandbox, _ *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) { //nolint:unparam // the runtime asks for updates, too
	adjustment := &api.ContainerAdjustment{}
	err := inNamespaceOf(pod, func(_ int, links []rtnl.Link) error {
		return addShares(adjustment, links)
	})
	if err != nil {
		return nil, nil, err
	}
	return adjustment, nil, nil
}

func addShares(a *api.ContainerAdjustment, links []rtnl.Link) error {
	shares := map[string]bool{}
	for _, l := range links {
		if device := shareRDMA(l); device != "" {
			shares[device] = true
		}
	}
	if len(shares) == 0 {
		return nil
	}
	files, _ := sysfs.ReadRDMAFiles(os.DirFS("/sys"))
	for _, f := range files {
		if !shares[f.RDMADevice] || f.Kind != "uverbs" {
			continue
		}
		if f.Number == nil {
			return fmt.Errorf("the kernel does not say the numbers of %s", f.Path)
		}
		a.AddDevice(&api.LinuxDevice{Path: f.Path, Type: "c", Major: f.Number.Major, Minor: f.Number.Minor, FileMode: api.FileMode(uint32(0o666))})
	}
	return nil
}
