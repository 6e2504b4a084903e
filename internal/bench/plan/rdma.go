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
	"plumbline.dev/plumbline/internal/model/slicecodec"
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

// hasRDMA is of NICs with an RDMA device.
const hasRDMA = `"rdma" in device.attributes["` + slicecodec.DriverNet + `"] && device.attributes["` + slicecodec.DriverNet + `"].rdma`

// idle is the command of pods in which the tool runs when it is told to.
var idle = []string{"tail", "-f", "/dev/null"}

// NewRDMA has each of two pods hold a NIC and CPUs: two NICs where the arms differ in that,
// and CPUs for each arm where they differ in these.
func NewRDMA(kind string, o Options) (*Plan, error) {
	p := &Plan{Kind: kind, Variable: o.Variable, Tool: o.perftest(kind)}
	w, err := p.nearAndFar(&o)
	if err != nil {
		return nil, err
	}
	nics := 2
	if p.A.Request == p.B.Request {
		nics = 1
	}
	if err := o.check(nics, "perftest and a shell"); err != nil {
		return nil, err
	}
	if o.Iterations < 5 || o.Iterations > 1e8 || o.Bytes < 1 || o.Bytes > 1<<23 {
		return nil, fmt.Errorf("%w: %d iterations of %d bytes: want 5 or more, of 1 to %d bytes", ErrOptions, o.Iterations, o.Bytes, 1<<23)
	}
	w.selectors, w.gpu = []string{hasRDMA}, o.GPUMemory
	return p, p.build(&o, w, idle)
}

// nearAndFar gives a plan arms that differ in their NIC or in their CPUs.
func (p *Plan) nearAndFar(o *Options) (w wants, err error) {
	switch {
	case o.Variable == CPUs && o.Against != "":
		return w, fmt.Errorf("%w: other NICs, where the arms differ in CPUs: want one of both", ErrOptions)
	case o.Variable == CPUs && o.CPUs == 0:
		return w, fmt.Errorf("%w: no CPUs, where the arms differ in these: want a number above 0", ErrOptions)
	case o.Variable == CPUs:
		p.A = Arm{Name: "near", Request: requestA, Interface: interfaceA, CPUs: requestCPUs}
		p.B = Arm{Name: "far", Request: requestA, Interface: interfaceA, CPUs: requestFarCPUs}
		w.cpus = []string{requestCPUs, requestFarCPUs}
		w.near, w.far = [][]string{{requestA, requestCPUs}}, [][]string{{requestA, requestFarCPUs}}
		return w, nil
	case o.Variable != NIC:
		return w, fmt.Errorf("%w: variable %q: want %s or %s", ErrOptions, o.Variable, NIC, CPUs)
	case o.Against == "" || o.Against == PodNetwork:
		return w, fmt.Errorf("%w: against %q, which has no RDMA: want %s, or an expression that other NICs fulfil", ErrOptions, o.Against, Misaligned)
	case o.Against == Misaligned && o.CPUs == 0:
		return w, fmt.Errorf("%w: no CPUs that a NIC could be misaligned with: want a number above 0", ErrOptions)
	}
	p.A = Arm{Name: requestA, Request: requestA, Interface: interfaceA}
	p.B = Arm{Name: requestB, Request: requestB, Interface: interfaceB}
	if o.CPUs > 0 {
		w.cpus = []string{requestCPUs}
	}
	if o.Against == Misaligned {
		p.A.Name, p.B.Name = "aligned", Misaligned
		w.near, w.far = [][]string{{requestA, requestCPUs}}, [][]string{{requestB, requestCPUs}}
	}
	return w, nil
}

// perftest has either side run the same command, the client with the server's address.
func (o *Options) perftest(kind string) Tool {
	program, figure, read := "ib_write_lat", tools.Figure{Name: "latency", Unit: "us"}, o.readLatency
	if kind == RDMABandwidth {
		program, figure, read = "ib_write_bw", tools.Figure{Name: "bandwidth", Unit: "Gbit/s", HigherIsBetter: true}, o.readBandwidth
	}
	command := func(end End) []string {
		words := []string{"timeout", "-s", "KILL", strconv.Itoa(rdmaLimit)}
		if end.CPUs != "" {
			words = append([]string{"taskset", "-c", end.CPUs}, words...)
		}
		words = append(words, program, "-d", end.RDMA, "-i", "1", "-x", strconv.Itoa(end.GID), "-p", strconv.Itoa(RDMAPort),
			"-s", strconv.Itoa(o.Bytes), "-n", strconv.Itoa(o.Iterations), "-F")
		if kind == RDMABandwidth {
			words = append(words, "--report_gbits", "-q", "1")
		}
		if o.GPUMemory {
			words = append(words, "--use_cuda=0")
		}
		return words
	}
	needs := []string{program, "timeout", "cat"}
	if o.Variable == CPUs {
		needs = append(needs, "taskset")
	}
	return Tool{
		Figure: figure, Iterations: o.Iterations, Bytes: o.Bytes, Limit: rdmaLimit * time.Second, Needs: needs, Version: []string{program, "--version"},
		RDMA: true, Port: RDMAPort,
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
