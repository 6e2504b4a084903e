// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/nvbandwidth"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// GPULatency is the kind of NewGPULatency.
const GPULatency = "gpu-latency"

// latencyTest is nvbandwidth's, of a GPU that reads memory of the host. It follows pointers a
// million times and prints one average, whatever -i and -m say.
const latencyTest = "host_device_latency_sm"

// gpuLimit is how many seconds a run may take.
const gpuLimit = 120

// NewGPULatency has one pod hold a GPU, CPUs of its NUMA node and CPUs of another. Memory of
// the host is where the CPUs are that the program is bound to as it allocates.
func NewGPULatency(o Options) (*Plan, error) {
	o.Variable, o.GPUs = CPUs, 1
	p := &Plan{
		Kind: GPULatency, Variable: CPUs, Tool: o.nvbandwidth(),
		A: Arm{Name: "near", CPUs: requestCPUs}, B: Arm{Name: "far", CPUs: requestFarCPUs},
	}
	if err := o.check(0, "nvbandwidth and a shell"); err != nil {
		return nil, err
	}
	if o.CPUs == 0 || len(o.Nodes) > 1 {
		return nil, fmt.Errorf("%w: %d CPUs on %d nodes: want CPUs, and one node or none", ErrOptions, o.CPUs, len(o.Nodes))
	}
	return p, p.build(&o, wants{
		alone: true, cpus: []string{requestCPUs, requestFarCPUs}, node: slicecodec.AttrNUMANode,
		near: [][]string{{requestGPU, requestCPUs}}, far: [][]string{{requestGPU, requestFarCPUs}},
	}, idle)
}

// nvbandwidth is asked not to bind itself (-d): it would, and fail at the CPUs that it may
// not have.
func (o *Options) nvbandwidth() Tool {
	return Tool{
		Figure: tools.Figure{Name: "latency", Unit: "ns"}, Iterations: 1e6, Limit: gpuLimit * time.Second, Carrier: Uncounted,
		Needs: o.needs("nvbandwidth"),
		Measure: func(e Ends) []string {
			return limited(e.Client, strconv.Itoa(gpuLimit), "nvbandwidth", "-t", latencyTest, "-d")
		},
		Read: func(out io.Reader) (Reading, error) {
			result, err := nvbandwidth.ParseText(out)
			if err != nil {
				return Reading{}, err
			}
			figure, err := result.Figure(latencyTest)
			return Reading{Value: figure.Value, Version: "nvbandwidth " + result.Version}, err
		},
	}
}
