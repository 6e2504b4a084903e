// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/mfu"
	"plumbline.dev/plumbline/internal/bench/tools/nccltests"
)

// Kinds of jobs of two ranks, or of two pods with as many ranks as they have GPUs.
const (
	Training  = "training"
	AllReduce = "allreduce"
)

// jobLimit is how many seconds a run may take.
const jobLimit = 600

const (
	// masterPort is where rank 0 waits for rank 1.
	masterPort = 29500
	// sshPort is where mpirun reaches the other pod.
	sshPort = 2222
	// warmupSteps are not in the figure.
	warmupSteps = 5
	// largestMTU is RDMA's, and so the fewest packets.
	largestMTU = 4096
)

// NewTraining has both pods train one model, a rank each, by the user's own command.
func NewTraining(o Options) (*Plan, error) {
	t := o.Training
	switch {
	case len(o.Command) == 0:
		return nil, fmt.Errorf("%w: no command: want the one that trains as one rank, after --", ErrOptions)
	case t.Shape.Batch < 1 || t.Shape.Hidden < 1 || t.Shape.Layers < 1 || t.Steps < 1:
		return nil, fmt.Errorf("%w: %d steps of batch %d, hidden size %d, %d layers: want numbers above 0", ErrOptions, t.Steps, t.Shape.Batch, t.Shape.Hidden, t.Shape.Layers)
	case t.Peak < 0 || math.IsNaN(t.Peak) || math.IsInf(t.Peak, 0):
		return nil, fmt.Errorf("%w: a peak of %v TFLOP/s: want a number above 0", ErrOptions, t.Peak)
	}
	return o.job(Training, o.train())
}

// NewAllReduce has mpirun in the client's pod start a rank in both.
func NewAllReduce(o Options) (*Plan, error) {
	switch {
	case o.Variable == CPUs:
		return nil, fmt.Errorf("%w: arms that differ in CPUs: want %s, since mpirun binds its ranks itself", ErrOptions, NIC)
	case len(o.Command) != 1:
		return nil, fmt.Errorf("%w: program %q: want one word, such as all_reduce_perf", ErrOptions, o.Command)
	case o.Iterations < 1 || o.Bytes < firstSize || o.Bytes&(o.Bytes-1) != 0:
		return nil, fmt.Errorf("%w: %d iterations up to %d bytes: want 1 or more, up to a power of two from %d on", ErrOptions, o.Iterations, o.Bytes, firstSize)
	}
	p, err := o.job(AllReduce, o.allReduce())
	if err != nil {
		return nil, err
	}
	for _, side := range p.Sides() {
		// sshd becomes the user who logs in, and looks at who asks in a folder without files.
		side.Pod.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SETGID", "SETUID", "SYS_CHROOT"}
	}
	return p, nil
}

func (o *Options) job(kind string, tool Tool) (*Plan, error) {
	p := &Plan{Kind: kind, Variable: o.Variable, Tool: tool}
	w, err := p.nearAndFar(o)
	if err != nil {
		return nil, err
	}
	if err := o.check(p.nics(), kind+" and a shell"); err != nil {
		return nil, err
	}
	return p, p.build(o, w, idle)
}

// load is what each pod must at least send, of which nobody knows the most: algorithms
// differ. Of two ranks each sends as many bytes as are added up.
func (o *Options) load(bytes float64) Load {
	if o.RDMA {
		return Load{Unit: Packets, Said: bytes / largestMTU, Fewest: 1, Most: math.Inf(1)}
	}
	return Load{Unit: Bytes, Said: bytes, Fewest: 1, Most: math.Inf(1)}
}

func (o *Options) carrier() Carrier {
	if o.RDMA {
		return RDMADevices
	}
	return Interfaces
}

// environment has NCCL, and what takes its place without GPUs, go by an arm's NIC.
func (o *Options) environment(end End) []string {
	all := []string{"NCCL_SOCKET_IFNAME==" + end.Interface, "GLOO_SOCKET_IFNAME=" + end.Interface}
	if o.RDMA {
		return append(all, fmt.Sprintf("NCCL_IB_HCA==%s:1", end.RDMA), fmt.Sprintf("NCCL_IB_GID_INDEX=%d", end.GID))
	}
	return append(all, "NCCL_IB_DISABLE=1")
}

func (o *Options) train() Tool {
	t := o.Training
	rank := func(e Ends, rank int) []string {
		end := []End{e.Client, e.Server}[rank]
		words := append([]string{"env"}, o.environment(end)...)
		words = append(words, "MASTER_ADDR="+e.Client.Address.String())
		for _, one := range []struct {
			name  string
			value int64
		}{
			{"MASTER_PORT", masterPort}, {"WORLD_SIZE", 2}, {"RANK", int64(rank)}, {"LOCAL_RANK", 0},
			{"MFU_BATCH_SIZE", t.Shape.Batch}, {"MFU_HIDDEN_SIZE", t.Shape.Hidden}, {"MFU_LAYERS", t.Shape.Layers},
			{"MFU_WARMUP_STEPS", warmupSteps}, {"MFU_STEPS", int64(t.Steps)},
		} {
			words = append(words, fmt.Sprintf("%s=%d", one.name, one.value))
		}
		return limited(end, strconv.Itoa(jobLimit), append(words, o.Command...)...)
	}
	return Tool{
		Figure: tools.Figure{Name: "step", Unit: "ms"}, Iterations: t.Steps, Limit: jobLimit * time.Second, Carrier: o.carrier(), Needs: o.needs(first(o.Command)),
		Serve:   func(e Ends) []string { return rank(e, 1) },
		Measure: func(e Ends) []string { return rank(e, 0) },
		Read: func(out io.Reader) (Reading, error) {
			result, err := mfu.Parse(out)
			if err != nil {
				return Reading{}, err
			}
			if result.WorldSize != 2 {
				return Reading{}, fmt.Errorf("mfu: world_size is %d: %w, want 2", result.WorldSize, tools.ErrValue)
			}
			u, err := result.Evaluate(t.Shape, t.Precision, t.Peak)
			if err != nil {
				return Reading{}, err
			}
			// Gradients have two bytes at least.
			gradients := 2 * float64(t.Shape.Hidden) * float64(t.Shape.Hidden) * float64(t.Shape.Layers)
			return Reading{
				Value: u.Step.Value, Says: u.String(), Load: o.load(gradients * float64(t.Steps)),
				Version: fmt.Sprintf("MFU_RESULT by %s, %s, %d ranks on %q of %g TFLOP/s", result.Backend, u.Precision, u.WorldSize, u.Device, u.PeakTFLOPS),
			}, nil
		},
	}
}

// first is a command's program.
func first(command []string) string { return slices.Concat(command, []string{""})[0] }

// firstSize is that of the table's first row; each is twice the one before.
const firstSize = 1024

// shareKey makes the client a key, and prints what of it the server may know.
const shareKey = `umask 077; mkdir -p ~/.ssh && rm -f ~/.ssh/bench && ssh-keygen -q -t ed25519 -C bench -N "" -f ~/.ssh/bench && cat ~/.ssh/bench.pub`

// admitKey lets whoever has the client's key in, by a host key that is this run's, whatever
// the image's own sshd_config says.
const admitKey = `umask 077; mkdir -p ~/.ssh /run/sshd && rm -f ~/.ssh/host && ssh-keygen -q -t ed25519 -C bench -N "" -f ~/.ssh/host &&
printf '%s\n' "$1" >~/.ssh/authorized_keys && "$(command -v sshd || echo /usr/sbin/sshd)" -p "$2" -f /dev/null -h ~/.ssh/host \
  -o StrictModes=no -o UsePAM=no -o PasswordAuthentication=no -o PidFile=none`

// rank is one of mpirun's two, with an environment of its own.
func (o *Options) rank(host string, end End) []string {
	words := []string{"-np", "1", "--host", host}
	for _, variable := range o.environment(end) {
		words = append(words, "-x", variable)
	}
	return append(words, first(o.Command), "-b", strconv.Itoa(firstSize), "-e", strconv.Itoa(o.Bytes), "-f", "2",
		"-g", strconv.Itoa(max(o.GPUs, 1)), "-w", strconv.Itoa(warmupSteps), "-n", strconv.Itoa(o.Iterations))
}

func (o *Options) allReduce() Tool {
	return Tool{
		Figure: tools.Figure{Name: "bus bandwidth", Unit: "GB/s", HigherIsBetter: true}, Iterations: o.Iterations, Bytes: o.Bytes,
		Limit: jobLimit * time.Second, Carrier: o.carrier(), Needs: append(o.needs("mpirun"), "ssh", "ssh-keygen", first(o.Command)),
		Setup: []Step{
			{roleClient, func(string) []string { return []string{"sh", "-c", shareKey} }},
			{roleServer, func(said string) []string { return []string{"sh", "-c", admitKey, "sh", said, strconv.Itoa(sshPort)} }},
		},
		Measure: func(e Ends) []string {
			words := []string{
				"mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", "slot", "--mca", "routed", "direct",
				"--mca", "plm_rsh_args", fmt.Sprintf("-p %d -i ~/.ssh/bench -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR", sshPort),
				"--mca", "oob_tcp_if_include", e.Client.Interface,
				"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", e.Client.Interface,
			}
			// RDMA devices may be called differently on both sides.
			words = append(words, o.rank("localhost", e.Client)...)
			words = append(append(words, ":"), o.rank(e.Server.Address.String(), e.Server)...)
			return limited(e.Client, strconv.Itoa(jobLimit), words...)
		},
		Read: func(out io.Reader) (Reading, error) {
			result, err := nccltests.ParseTable(out)
			if err != nil {
				return Reading{}, err
			}
			// The largest must be there, and the average is of all.
			if _, err := result.BusBandwidth(int64(o.Bytes)); err != nil {
				return Reading{}, err
			}
			figure, err := result.Average()
			if err != nil {
				return Reading{}, err
			}
			added := 0.0
			for _, row := range result.Rows {
				// Into another buffer, and into the same.
				added += 2 * float64(row.Bytes) * float64(o.Iterations)
			}
			return Reading{Value: figure.Value, Version: first(o.Command), Load: o.load(added)}, nil
		},
	}
}
