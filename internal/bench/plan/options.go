// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"

	"plumbline.dev/plumbline/internal/bench/tools/mfu"
)

// What Against says beside an expression.
const (
	// PodNetwork is for the pods' own interface, and what that is called in nearly every pod.
	PodNetwork = "eth0"
	// Misaligned is for a NIC that is not of the CPUs' NUMA node, where the first arm's is.
	Misaligned = "misaligned"
)

// Options say what is compared.
type Options struct {
	// Run is the name that all objects have, Namespace where they are made.
	Run, Namespace string
	// Image has the tool.
	Image string
	// Nodes are those of server and client; one is for both, none leaves it to the scheduler.
	Nodes []string
	// Variable is what the arms differ in.
	Variable Variable
	// NIC is a CEL expression that the first arm's NICs fulfil; empty for any NIC.
	NIC string
	// Against is PodNetwork or Misaligned, or such an expression for the second arm's NICs;
	// of nothing where the arms do not differ in the NIC.
	Against string
	// CPUs are so many exclusive ones for each pod, and where the arms differ in them so many
	// for each arm; 0 is none.
	CPUs int
	// Addresses are subnets, one for each claimed NIC; none leaves the NICs those of the host.
	Addresses []netip.Prefix
	// Seconds are those of a run that is of a time, Iterations and Bytes how many messages a
	// run is of otherwise, and their size.
	Seconds, Iterations, Bytes int
	// GPUMemory has RDMA read from and write to the memory of a claimed GPU.
	GPUMemory bool
	// GPUs is how many each pod claims, and GPU an expression that they fulfil.
	GPUs int
	GPU  string
	// RDMA has jobs go by the RDMA devices of their NICs, and not by sockets.
	RDMA bool
	// Command is the user's own: a training's of one rank, or the all-reduce's program.
	Command []string
	// Training says what Command trains, in which precision, for how many steps, and what the
	// GPU's peak is; 0 is that of its product.
	Training TrainingOptions
}

// TrainingOptions are a model, and how it is trained.
type TrainingOptions struct {
	Shape     mfu.Shape
	Precision string
	Steps     int
	Peak      float64
}

// node is that of the server (0) or of the client (1).
func (o *Options) node(side int) string {
	if len(o.Nodes) == 0 {
		return ""
	}
	return o.Nodes[min(side, len(o.Nodes)-1)]
}

// check is of what all kinds have, for arms with so many NICs together.
func (o *Options) check(nics int, has string) error {
	switch {
	case o.Image == "":
		return fmt.Errorf("%w: no image: want one that has %s", ErrOptions, has)
	case len(o.Nodes) > 2:
		return fmt.Errorf("%w: %d nodes: want at most two, of the server and of the client", ErrOptions, len(o.Nodes))
	case o.CPUs < 0:
		return fmt.Errorf("%w: %d CPUs: want a number above 0, or none", ErrOptions, o.CPUs)
	case o.GPUs < 0 || o.GPUs > 32:
		return fmt.Errorf("%w: %d GPUs: want 0 to 32", ErrOptions, o.GPUs)
	case len(o.Addresses) > 0 && len(o.Addresses) != nics:
		return fmt.Errorf("%w: %d subnets of addresses: want %d, one for each claimed NIC", ErrOptions, len(o.Addresses), nics)
	}
	for i, subnet := range o.Addresses {
		if subnet != subnet.Masked() || subnet.Bits() > subnet.Addr().BitLen()-2 {
			return fmt.Errorf("%w: %s is no subnet with two addresses: want such as 192.168.200.0/24", ErrOptions, subnet)
		}
		if i > 0 && subnet.Overlaps(o.Addresses[0]) {
			return fmt.Errorf("%w: subnets %s and %s overlap: the kernel could take either NIC", ErrOptions, o.Addresses[0], subnet)
		}
	}
	return nil
}
