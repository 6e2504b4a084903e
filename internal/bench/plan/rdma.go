// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/perftest"
)

// Kinds of NewRDMA.
const (
	RDMALatency   = "rdma-latency"
	RDMABandwidth = "rdma-bandwidth"
)

// RDMAPort is where the server waits for the client, to tell each other what RDMA needs.
const RDMAPort = 18515

// rdmaLimit is how many seconds a run may take. Both sides are killed then: a server whose
// client does not come waits for ever, and the end of the command that began it is no end of
// it.
const rdmaLimit = 120

// NewRDMA has each of two pods hold a NIC and CPUs: two NICs where the arms differ in that,
// and CPUs for each arm where they differ in these.
func NewRDMA(kind string, o Options) (*Plan, error) {
	o.RDMA = true
	if o.GPUMemory {
		o.GPUs = 1
	}
	p := &Plan{Kind: kind, Variable: o.Variable, Tool: o.perftest(kind)}
	w, err := p.nearAndFar(&o)
	if err != nil {
		return nil, err
	}
	if err := o.check(p.nics(), "perftest and a shell"); err != nil {
		return nil, err
	}
	if o.Iterations < 5 || o.Iterations > 1e8 || o.Bytes < 1 || o.Bytes > 1<<23 {
		return nil, fmt.Errorf("%w: %d iterations of %d bytes: want 5 or more, of 1 to %d bytes", ErrOptions, o.Iterations, o.Bytes, 1<<23)
	}
	return p, p.build(&o, w, idle)
}

// perftest has either side run the same command, the client with the server's address.
func (o *Options) perftest(kind string) Tool {
	program, figure, read := "ib_write_lat", tools.Figure{Name: "latency", Unit: "us"}, o.readLatency
	if kind == RDMABandwidth {
		program, figure, read = "ib_write_bw", tools.Figure{Name: "bandwidth", Unit: "Gbit/s", HigherIsBetter: true}, o.readBandwidth
	}
	command := func(end End) []string {
		words := []string{
			program, "-d", end.RDMA, "-i", "1", "-x", strconv.Itoa(end.GID), "-p", strconv.Itoa(RDMAPort),
			"-s", strconv.Itoa(o.Bytes), "-n", strconv.Itoa(o.Iterations), "-F",
		}
		if kind == RDMABandwidth {
			words = append(words, "--report_gbits", "-q", "1")
		}
		if o.GPUMemory {
			words = append(words, "--use_cuda=0")
		}
		return limited(end, strconv.Itoa(rdmaLimit), words...)
	}
	return Tool{
		Figure: figure, Iterations: o.Iterations, Bytes: o.Bytes, Limit: rdmaLimit * time.Second, Needs: o.needs(program), Version: []string{program, "--version"},
		Carrier: RDMADevices, Port: RDMAPort,
		Serve:   func(e Ends) []string { return command(e.Server) },
		Measure: func(e Ends) []string { return append(command(e.Client), e.Server.Address.String()) },
		Read:    read,
	}
}

// readLatency wants the median. Either side writes once for each iteration, and may
// acknowledge each write by a packet of its own.
func (o *Options) readLatency(out io.Reader) (Reading, error) {
	row, figure, _, err := o.readPerftest(out, "t_typical")
	return Reading{Value: figure.Value, Load: Load{Unit: Packets, Said: float64(row.Iterations), Fewest: 1, Most: 4}}, err
}

// readBandwidth wants the average, of messages that went in packets of the MTU.
func (o *Options) readBandwidth(out io.Reader) (Reading, error) {
	row, figure, mtu, err := o.readPerftest(out, "bw_average")
	if err != nil {
		return Reading{}, err
	}
	each := (row.Bytes + mtu - 1) / mtu
	return Reading{Value: figure.Value, Load: Load{Unit: Packets, Said: float64(row.Iterations * each), Fewest: 0.9, Most: 2}}, nil
}

func (o *Options) readPerftest(out io.Reader, name string) (row perftest.Row, figure tools.Figure, mtu int64, err error) {
	text, err := tools.Read(out)
	if err != nil {
		return perftest.Row{}, tools.Figure{}, 0, fmt.Errorf("perftest: %w", err)
	}
	result, err := perftest.ParseText(bytes.NewReader(text))
	if err != nil {
		return perftest.Row{}, tools.Figure{}, 0, err
	}
	if figure, err = result.Figure(name, int64(o.Bytes)); err != nil {
		return perftest.Row{}, tools.Figure{}, 0, err
	}
	mtu, err = perftest.MTU(bytes.NewReader(text))
	// The figure was in the only row.
	return result.Rows[0], figure, mtu, err
}
