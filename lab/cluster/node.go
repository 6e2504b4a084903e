// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/vm"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
	"plumbline.dev/plumbline/lab/vm/qemu"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// realLabel marks nodes that run pods.
const realLabel = "plumbline.dev/lab-machine"

// bootPatience is how long a guest may take from power-on to its last
// service, and then to be Ready. Emulated on two busy cores it needs a fifth.
const bootPatience = 10 * time.Minute

// machine is the cluster's virtual machine, running or not.
func (c *Cluster) machine() *vm.VM { return vm.Open(filepath.Join(c.dir, "vm")) }

// node boots the machine, unless it runs, and waits for it to join. One that runs is
// given what is new of the images.
func (c *Cluster) node(ctx context.Context, b *ArtifactBuilder, artifacts *Artifacts, cp *controlplane.ControlPlane, facts *machine.Facts, o Options) error {
	running, err := c.machine().Running()
	if err != nil {
		return err
	}
	if !running {
		if err := c.boot(ctx, b, artifacts, cp, facts, o); err != nil {
			return err
		}
	}
	if err := c.ready(ctx, b, cp, cloudOf(facts, o)); err != nil {
		return err
	}
	if !running {
		return nil
	}
	return c.reload(ctx, b, artifacts.Images)
}

// ready waits for the node to join, and for the guest to have started all its
// services, or to give up.
func (c *Cluster) ready(ctx context.Context, b *ArtifactBuilder, cp *controlplane.ControlPlane, cloud cloud) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	task := b.progress.Start("node " + cloud.node)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.join(groupCtx, cp, cloud) })
	group.Go(func() error { return c.machine().Wait(groupCtx, guest.Started) })
	if err := group.Wait(); err != nil {
		task.Fail()
		return err
	}
	task.Done("ready")
	return nil
}

// nodeName is the name of the node with that hardware: Kubernetes' names have
// small letters only.
func nodeName(facts *machine.Facts) string { return strings.ToLower(facts.Name) }

func (c *Cluster) boot(ctx context.Context, b *ArtifactBuilder, artifacts *Artifacts, cp *controlplane.ControlPlane, facts *machine.Facts, o Options) error {
	config, err := c.vmConfig(artifacts, cp, facts, o)
	if err != nil {
		return err
	}
	var why string
	if config.KVM, why, err = vm.KVM(ctx, config, b.cache.Path(KVMFile(o.Guest))); err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(c.hardwareFile(), []byte(o.hardware(facts)), 0o644),
		c.noteImages(artifacts.Images),
	)
	if err != nil {
		return err
	}
	task := b.progress.Start("virtual machine " + facts.Name)
	booting, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	_, deviations, err := vm.Boot(booting, config, func(why error) {
		b.progress.Note("  the machine did not come up, and is started again: %v", why)
	})
	if err != nil {
		task.Fail()
		return err
	}
	task.Done("booted")
	if why != "" {
		firstLine, _, _ := strings.Cut(why, "\n")
		deviations = append(deviations, "its processor is emulated, since KVM does not work here: "+firstLine)
	}
	for _, deviation := range deviations {
		b.progress.Note("  %s", deviation)
	}
	return nil
}

// checkShape refuses hardware that no virtual machine can have, before
// anything is built for it.
func checkShape(facts *machine.Facts, o Options) error {
	hardware, err := shape.FromFacts(facts)
	if err != nil {
		return err
	}
	layout, err := hardware.Scale(cmp.Or(o.CPUs, vm.DefaultCPUs), cmp.Or(o.MemoryMiB, vm.DefaultMemoryMiB))
	if err != nil {
		return err
	}
	_, _, err = qemu.Args(qemu.Options{Name: facts.Name, Shape: hardware, Layout: layout})
	return err
}

// withNVIDIA follows the name of a machine on whose node NVIDIA's driver finds what it
// needs, which is there from boot on.
const withNVIDIA = " and NVIDIA's driver"

// KVMFile is where the cache keeps whether hardware virtualisation works: what boots a
// kind of guest has a say.
func KVMFile(guest string) string {
	if guest == GuestRDMA {
		return "kvm-" + guest
	}
	return "kvm"
}

// withRDMA follows the name of a machine whose guest is GuestRDMA.
const withRDMA = " and RDMA in namespaces"

// withDNS follows it where pods find Services by name.
const withDNS = " and DNS"

// exclusively follows it where each RDMA device belongs to one namespace.
const exclusively = ", exclusively"

// hardware says what a node is booted with.
func (o Options) hardware(facts *machine.Facts) string {
	has := facts.Name
	if o.GPUs == GPUsOfNVIDIA {
		has += withNVIDIA
	}
	if o.Guest == GuestRDMA {
		has += withRDMA
	}
	if o.DNS {
		has += withDNS
	}
	if o.ExclusiveRDMA {
		has += exclusively
	}
	return has
}

// asBooted fills in what the options leave open: on a node that runs, who serves GPUs
// and which guest it is as it was booted.
func (c *Cluster) asBooted(o Options) (Options, error) {
	var has []byte
	running, err := c.running()
	if err == nil && running {
		has, err = os.ReadFile(c.hardwareFile())
	}
	o.DNS = o.DNS || strings.Contains(string(has), withDNS)
	if o.OnHost {
		return o, err
	}
	gpus, kind := GPUsSimulated, GuestUsual
	if strings.Contains(string(has), withNVIDIA) {
		gpus = GPUsOfNVIDIA
	}
	if strings.Contains(string(has), withRDMA) {
		kind = GuestRDMA
	}
	if o.Guest == "" {
		o.Guest, o.ExclusiveRDMA = kind, strings.HasSuffix(string(has), exclusively)
	}
	o.GPUs = cmp.Or(o.GPUs, gpus)
	return o, err
}

// hardwareFile records what the running node has: its machine.
func (c *Cluster) hardwareFile() string { return filepath.Join(c.dir, "hardware") }

// running says whether the cluster has a node that runs, of either kind.
func (c *Cluster) running() (bool, error) {
	inVM, err := c.machine().Running()
	if inVM || err != nil {
		return inVM, err
	}
	return c.onHost()
}

// checkHardware refuses to take one machine for another.
func (c *Cluster) checkHardware(wanted string) error {
	running, err := c.running()
	if err != nil || !running {
		return err
	}
	has, err := os.ReadFile(c.hardwareFile())
	if err != nil {
		return err
	}
	if string(has) != wanted {
		return fmt.Errorf("cluster %s runs a node with the hardware of %s, not %s: run plumblab down first, or give the new cluster a name with --name", c.name, has, wanted)
	}
	return nil
}

func (c *Cluster) vmConfig(artifacts *Artifacts, cp *controlplane.ControlPlane, facts *machine.Facts, o Options) (vm.Config, error) {
	hardware, err := shape.FromFacts(facts)
	if err != nil {
		return vm.Config{}, err
	}
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		return vm.Config{}, err
	}
	kubeconfig, ca, err := cp.NodeCredentials(nodeName(facts))
	if err != nil {
		return vm.Config{}, err
	}
	files, services, err := node.Guest(node.GuestConfig{
		Name: nodeName(facts),
		Labels: map[string]string{
			// What a cloud's metadata says of a node's hardware.
			corev1.LabelInstanceTypeStable: facts.Name,
			realLabel:                      "true",
		},
		Hyperkube: artifacts.Hyperkube, Runc: artifacts.Runc, Containerd: artifacts.Containerd, CNI: artifacts.CNI,
		Images: artifacts.Images, Sandbox: image.Pause, DNS: o.DNS,
		Kubeconfig: kubeconfig, ClientCA: ca, KubeletPort: ports[0],
	})
	if err != nil {
		return vm.Config{}, err
	}
	tools, err := node.HostTools(artifacts.HostTools)
	if err != nil {
		return vm.Config{}, err
	}
	files.Add(tools)
	moduleOptions := map[string]string{}
	if o.ExclusiveRDMA {
		moduleOptions["ib_core"] = "netns_mode=0"
	}
	if o.Guest == GuestRDMA {
		services = append(services, node.RDMAKeeper())
	}
	if o.GPUs == GPUsOfNVIDIA {
		standIn, devices, err := artifacts.NVIDIA.Driver.StandIn.On(facts, nodeName(facts))
		if err != nil {
			return vm.Config{}, err
		}
		files.Add(standIn)
		services = append(services, devices)
	}
	if o.agentMachine() != o.Machine {
		files[guestMachineFile] = initramfs.File{Source: o.Machine}
	}
	return vm.Config{
		Name: nodeName(facts), Dir: filepath.Join(c.dir, "vm"), Shape: hardware,
		CPUs: cmp.Or(o.CPUs, vm.DefaultCPUs), MemoryMiB: cmp.Or(o.MemoryMiB, vm.DefaultMemoryMiB),
		QEMU:   qemu.Program{Path: artifacts.QEMU.Path, Args: artifacts.QEMU.Args, Env: artifacts.QEMU.Env},
		Kernel: artifacts.Kernel, ModulesDir: artifacts.Modules,
		Init: artifacts.GuestInit, Busybox: artifacts.Busybox, Applets: artifacts.Applets,
		Files: files, Services: services,
		// What eBPF programs on a NIC hang from before Linux 6.6.
		Modules:       []string{"sch_ingress", "cls_bpf"},
		ModuleOptions: moduleOptions,
		Forwards:      []qemu.Forward{{Host: ports[0], Guest: ports[0]}},
	}, nil
}
