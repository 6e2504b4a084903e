// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/tools/mfu"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// addArms adds the flags of kinds whose arms differ in a NIC or in CPUs.
func addArms(flags *pflag.FlagSet, p *plan.Options, variable *string, subnets *[]string, against string) {
	flags.StringVar(variable, "variable", "nic", "what differs: nic or cpus")
	flags.StringVar(&p.NIC, "nic", "", "a CEL expression that the NICs fulfil, those of the first arm where NICs differ; any without it")
	flags.StringVar(&p.Against, "against", against, "the second arm's NICs: "+plan.Misaligned+", which are of another NUMA node than the CPUs, "+
		"or an expression; "+plan.PodNetwork+", the pods' own network, where RDMA is not used")
	flags.StringSliceVar(subnets, "addresses", nil, "subnets of the claimed NICs' addresses, one for each; those of the host without it")
	flags.IntVar(&p.CPUs, "cpus", 1, "so many exclusive CPUs for each pod, and where they differ for each arm")
}

// declare notes what differs.
func declare(cmd *cobra.Command, p *plan.Options, variable string) error {
	switch variable {
	case "nic":
		p.Variable = plan.NIC
	case "cpus":
		p.Variable = plan.CPUs
		if !cmd.Flags().Changed("against") {
			p.Against = ""
		}
	default:
		return cmdutil.Usagef("--variable %q: want nic or cpus", variable)
	}
	return nil
}

// newAllReduce measures an all-reduce of two pods.
func newAllReduce(o *options) *cobra.Command {
	p := plan.Options{Variable: plan.NIC, Iterations: 20, Bytes: 128 << 20}
	var variable, program string
	var subnets []string
	cmd := &cobra.Command{
		Use:   "allreduce --image IMAGE",
		Short: "Compare the bus bandwidth of an all-reduce by NICs",
		Long: `Two pods claim NICs, CPUs and GPUs, and mpirun of Open MPI in one of them starts a rank in
both, which it reaches by ssh with a key that is made for the measurement. The program prints
the table of nccl-tests; their average counts, and its largest size must be there. The arm's
NICs must have carried what was added up, and others next to nothing.

` + codes(),
		Example: `  # what does a NIC of the other NUMA node cost?
  {{program}} bench allreduce --image registry.example/nccl-tests --rdma

  # the pods' own network against a claimed NIC, without GPUs
  {{program}} bench allreduce --image registry.example/mpi --gpus 0 --against eth0 --program /usr/local/bin/allreduce

  # what would be made?
  {{program}} bench allreduce --image registry.example/nccl-tests --dry-run`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := declare(cmd, &p, variable); err != nil {
				return err
			}
			p.Command = []string{program}
			return o.plan(cmd, p, subnets, plan.NewAllReduce)
		},
	}
	flags := cmd.Flags()
	addArms(flags, &p, &variable, &subnets, plan.Misaligned)
	addGPUs(flags, &p)
	flags.BoolVar(&p.RDMA, "rdma", false, "claim NICs with RDMA, and count packets of their RDMA devices")
	flags.StringVar(&program, "program", "all_reduce_perf", "the image's program, which takes the flags of nccl-tests and prints their table")
	flags.IntVar(&p.Bytes, "size", p.Bytes, "the largest size, a power of two")
	flags.IntVar(&p.Iterations, "iterations", p.Iterations, "how often each size is added up; a run takes ten minutes at most")
	o.addFlags(flags)
	return cmd
}

func addGPUs(flags *pflag.FlagSet, p *plan.Options) {
	flags.IntVar(&p.GPUs, "gpus", 1, "how many GPUs each pod claims")
	flags.StringVar(&p.GPU, "gpu", "", "a CEL expression that they fulfil; any GPU without it")
}

// newTraining measures a step of a training in two pods.
func newTraining(o *options) *cobra.Command {
	p := plan.Options{Training: plan.TrainingOptions{Shape: mfu.Shape{Batch: 4096, Hidden: 8192, Layers: 12}, Precision: mfu.BF16, Steps: 20}}
	var variable string
	var subnets []string
	cmd := &cobra.Command{
		Use:   "training --image IMAGE -- COMMAND [ARGUMENT...]",
		Short: "Compare a training's step, and its share of the GPU's peak, by NICs or by CPUs",
		Long: `Two pods claim a NIC, CPUs and a GPU each, and run the command as ranks 0 and 1: it is told
MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and LOCAL_RANK, the model as MFU_BATCH_SIZE,
MFU_HIDDEN_SIZE, MFU_LAYERS, MFU_WARMUP_STEPS and MFU_STEPS, and the arm's NIC for NCCL and
gloo. Rank 0 ends with a line MFU_RESULT. Of it the step's time is taken; what it is of the
GPU's peak is computed anew, as 6*batch*hidden^2*layers operations a step, and kept with
precision and world size. The arm's NICs must have carried the gradients.

` + codes(),
		Example: `  # what do CPUs of the other NUMA node cost?
  {{program}} bench training --image registry.example/train --rdma --variable cpus --cpus 8 -- python3 /train.py

  # a GPU whose peak is not known
  {{program}} bench training --image registry.example/train --rdma --peak-tflops 125 -- python3 /train.py

  # what would be made?
  {{program}} bench training --image registry.example/train --dry-run -- python3 /train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := declare(cmd, &p, variable); err != nil {
				return err
			}
			p.Command = args
			return o.plan(cmd, p, subnets, plan.NewTraining)
		},
	}
	flags := cmd.Flags()
	addArms(flags, &p, &variable, &subnets, plan.Misaligned)
	addGPUs(flags, &p)
	flags.BoolVar(&p.RDMA, "rdma", false, "claim NICs with RDMA, and count packets of their RDMA devices")
	t := &p.Training
	flags.Int64Var(&t.Shape.Batch, "batch", t.Shape.Batch, "rows of a rank's step")
	flags.Int64Var(&t.Shape.Hidden, "hidden", t.Shape.Hidden, "width of a layer")
	flags.Int64Var(&t.Shape.Layers, "layers", t.Shape.Layers, "how many layers")
	flags.IntVar(&t.Steps, "steps", t.Steps, "how many steps are measured; a run takes ten minutes at most")
	flags.StringVar(&t.Precision, "precision", t.Precision, "in which it is trained")
	flags.Float64Var(&t.Peak, "peak-tflops", 0, "the GPU's dense peak in that precision; that of its product without it")
	o.addFlags(flags)
	return cmd
}

// newGPULatency measures how far a GPU is from CPUs.
func newGPULatency(o *options) *cobra.Command {
	p := plan.Options{CPUs: 4}
	cmd := &cobra.Command{
		Use:   "gpu-latency --image IMAGE",
		Short: "Compare the latency between a GPU and the memory of near and of far CPUs",
		Long: `One pod claims a GPU, CPUs of its NUMA node and CPUs of another, to which taskset binds
nvbandwidth by turns (host_device_latency_sm). One run of it is one sample, whatever its own
flags for more say: --repeats has it run more often. No counter shows this load.

Claims need a driver of GPUs that publishes resource.kubernetes.io/numaNode.

` + codes(),
		Example: `  # how far are CPUs of the other NUMA node?
  {{program}} bench gpu-latency --image registry.example/nvbandwidth --node gpu-node-1 --repeats 5

  # what would be made?
  {{program}} bench gpu-latency --image registry.example/nvbandwidth --dry-run`,
		Args: cmdutil.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.plan(cmd, p, nil, plan.NewGPULatency)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&p.CPUs, "cpus", p.CPUs, "so many exclusive CPUs for each arm")
	flags.StringVar(&p.GPU, "gpu", "", "a CEL expression that the GPU fulfils; any GPU without it")
	o.addFlags(flags)
	return cmd
}
