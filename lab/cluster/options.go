// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/build"
)

// Options say what to start.
type Options struct {
	// NoNode starts the control plane only.
	NoNode bool
	// Machine is the hardware of the node: a shipped machine's name or a
	// machine file's path.
	Machine string
	// CPUs and MemoryMiB are what the hardware is scaled to; zero leaves
	// the choice to the lab.
	CPUs, MemoryMiB int
	// OnHost has the node run on this host's own processors, with virtual links
	// for NICs; Machine says nothing then.
	OnHost bool
	// NoInstall leaves plumbline out, NoOperator the part of it that a node's
	// pods do without: an emulated processor has enough to do.
	NoInstall, NoOperator bool
	// Observe has plumbline's agents look only, beside whoever serves.
	Observe bool
	// UsersPace has the agent of a node on this host verify pods as often as the
	// chart has it, and not more often.
	UsersPace bool
	// Simulate adds nodes that only publish slices.
	Simulate []Simulated
	// Versions are those of Kubernetes and containerd.
	Versions build.Versions
	// GPUs say who serves the machine's GPUs: GPUsOfNVIDIA, GPUsSimulated or GPUsNone;
	// empty is as the running node has it, or GPUsSimulated. There are none on this host.
	GPUs string

	// Guest is the software below the node's: GuestRDMA, or empty for as the running
	// node has it, or GuestUsual.
	Guest string
	// DNS has pods find Services by their names, which a running node keeps.
	DNS bool
	// ExclusiveRDMA has each RDMA device belong to one network namespace, from boot on:
	// the kernel changes that only while there is no namespace but the first.
	ExclusiveRDMA bool

	// metadataPort is where the node's metadata server listens on the host's
	// loopback; 0 where the machine is in no cloud that has one.
	metadataPort int
}

// Who serves the GPUs of a node in a virtual machine.
const (
	// GPUsOfNVIDIA are served by NVIDIA's DRA driver, over a stand-in of NVIDIA's
	// kernel driver and libraries (lab/nvml), those of simulated nodes too (lab/nvidia).
	GPUsOfNVIDIA = "nvidia"
	// GPUsSimulated are served by plumbline's agent.
	GPUsSimulated = "simulated"
	// GPUsNone are not served.
	GPUsNone = "none"
)

// check finds mistakes in the options before anything is built.
func (o Options) check() error {
	if err := o.Versions.Check(); err != nil {
		return err
	}
	if err := o.checkGuest(); err != nil {
		return err
	}
	switch o.GPUs {
	case "", GPUsSimulated, GPUsNone:
	case GPUsOfNVIDIA:
		if err := o.checkNVIDIA(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--gpu %q: want %s, %s or %s", o.GPUs, GPUsOfNVIDIA, GPUsSimulated, GPUsNone)
	}
	if o.CPUs < 0 || o.MemoryMiB < 0 {
		return fmt.Errorf("--cpus %d, --memory %d: want positive numbers, or none for the lab's choice", o.CPUs, o.MemoryMiB)
	}
	if o.OnHost && o.NoNode {
		return errors.New("--node host and --no-node: leave one out")
	}
	if o.NoNode && len(o.Simulate) > 0 {
		return errors.New("--no-node and --simulate: simulated nodes come with the cluster's node; leave one out")
	}
	for _, s := range o.Simulate {
		if _, err := machine.OpenFacts(s.Machine); err != nil {
			return fmt.Errorf("--simulate: %w", err)
		}
	}
	return nil
}

// checkNVIDIA says whether NVIDIA's driver would have something to serve.
// What runs below a virtual machine's node.
const (
	// GuestUsual has the kernel of the host's Debian release.
	GuestUsual = "usual"
	// GuestRDMA has a newer kernel, whose soft RoCE works in the namespace of a pod
	// that has its NIC, and the programs that measure it.
	GuestRDMA = "rdma"
)

func (o Options) checkGuest() error {
	if o.Guest == GuestRDMA && (o.OnHost || o.NoNode) {
		return fmt.Errorf("--guest %s: it is a virtual machine's: leave out --node host and --no-node", GuestRDMA)
	}
	return CheckGuest(o.Guest)
}

// CheckGuest says what is wrong with a kind of guest.
func CheckGuest(kind string) error {
	switch kind {
	case "", GuestUsual, GuestRDMA:
		return nil
	}
	return fmt.Errorf("--guest %q: want %s or %s", kind, GuestUsual, GuestRDMA)
}

func (o Options) checkNVIDIA() error {
	if o.OnHost || o.NoNode {
		return fmt.Errorf("--gpu %s: GPUs are a virtual machine's: leave out --node host and --no-node", GPUsOfNVIDIA)
	}
	facts, err := o.machine()
	if err != nil {
		return err
	}
	if len(facts.ModelGPUs()) == 0 {
		return fmt.Errorf("--gpu %s: machine %s has no GPU of NVIDIA's: want %s", GPUsOfNVIDIA, facts.Name, GPUsNone)
	}
	return nil
}

func (o Options) machine() (*machine.Facts, error) {
	if o.OnHost {
		return &machine.Facts{Name: HostNodeName}, nil
	}
	facts, err := machine.OpenFacts(o.Machine)
	if err != nil {
		return nil, fmt.Errorf("choose the node's hardware: %w", err)
	}
	return facts, nil
}

// guestMachineFile is where a machine file that is not shipped lies in the
// guest.
const guestMachineFile = "/etc/plumbline/machine.yaml"

// agentMachine is what the agent, in its container, is to open as Machine.
func (o Options) agentMachine() string {
	if slices.Contains(machine.Names(), o.Machine) {
		return o.Machine
	}
	return guestMachineFile
}
