// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/lab/vm/guest"
)

// rdmaKeeper stands for hardware whose RDMA device stays with its NIC: soft RoCE's is
// deleted by the kernel when the NIC enters a pod. It is an NRI plugin, since the
// runtime then starts no container before the device is there.
type rdmaKeeper struct {
	// devices are the names of RDMA devices by their NICs' PCI addresses.
	devices map[string]string
}

// keeperIndex comes after that of plumbline's agent, which moves the NICs: plugins are
// called in this order.
const keeperIndex = "90"

// keepPodsRDMA serves until the runtime goes away.
func keepPodsRDMA(ctx context.Context) error {
	text, err := os.ReadFile(guest.PlanPath)
	if err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	var plan guest.Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	k := &rdmaKeeper{devices: map[string]string{}}
	for _, n := range plan.NICs {
		if n.RDMA != "" {
			k.devices[n.PCI] = n.RDMA
		}
	}
	s, err := stub.New(k, stub.WithPluginName("rdma-keeper"), stub.WithPluginIdx(keeperIndex))
	if err != nil {
		return fmt.Errorf("serve the container runtime: %w", err)
	}
	return s.Run(ctx)
}

// RunPodSandbox makes the RDMA devices of the NICs that the pod was given, and of its links
// on NICs that are shared.
func (k *rdmaKeeper) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return inNamespaceOf(pod, k.keepIn)
}

// inNamespaceOf calls do with a pod's network namespace and its links.
func inNamespaceOf(pod *api.PodSandbox, do func(namespace int, links []rtnl.Link) error) error {
	for _, n := range pod.GetLinux().GetNamespaces() {
		if n.GetType() == "network" && n.GetPath() != "" {
			if err := inNamespace(n.GetPath(), do); err != nil {
				return fmt.Errorf("pod %s/%s: %w", pod.GetNamespace(), pod.GetName(), err)
			}
		}
	}
	return nil
}

func inNamespace(path string, do func(namespace int, links []rtnl.Link) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer func() { _ = file.Close() }()
	namespace := int(file.Fd())
	conn, err := rtnl.Dial(namespace)
	if err != nil {
		return err
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		return err
	}
	return do(namespace, links)
}

func (k *rdmaKeeper) keepIn(namespace int, links []rtnl.Link) error {
	for _, l := range links {
		switch {
		case shareRDMA(l) != "":
			if err := keepShare(namespace, l); err != nil {
				return err
			}
		case l.BusAddress != nil && k.devices[*l.BusAddress] != "":
			if err := keepOn(namespace, k.devices[*l.BusAddress], l.Name); err != nil {
				return err
			}
			fmt.Printf("%s is on %s in a pod\n", k.devices[*l.BusAddress], l.Name)
		}
	}
	return nil
}

// keepOn makes an RDMA device on an interface in a namespace.
func keepOn(namespace int, device, ifname string) error {
	if err := rdma.AddSoftware(namespace, device, "rxe", ifname); err != nil {
		return err
	}
	mode, err := rdma.NamespaceMode(namespace)
	if err != nil || mode == rdma.Shared {
		return err
	}
	// In exclusive mode the kernel makes it in the first namespace, wherever its
	// interface is.
	return rdma.Move(netns.Current, device, namespace)
}
