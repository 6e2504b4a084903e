// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/iperf3"
	"plumbline.dev/plumbline/internal/printable"
)

// TCP is the kind of NewTCP.
const TCP = "tcp"

// TCPPort is where the server listens.
const TCPPort = 5201

// NewTCP has each of two pods hold the NICs of both arms.
func NewTCP(o Options) (*Plan, error) {
	nics := 2
	if o.Against == PodNetwork {
		nics = 1
	}
	if err := o.check(nics, "iperf3 and cat"); err != nil {
		return nil, err
	}
	if o.Against == "" {
		return nil, fmt.Errorf("%w: nothing to compare with: want %s, or an expression that other NICs fulfil", ErrOptions, PodNetwork)
	}
	p := &Plan{
		Kind: TCP, Variable: NIC, Tool: o.tcp(),
		A: Arm{Name: requestA, Request: requestA, Interface: interfaceA}, B: Arm{Name: requestB, Request: requestB, Interface: interfaceB},
	}
	if o.Against == PodNetwork {
		p.B = Arm{Name: PodNetwork, Interface: PodNetwork}
	}
	var w wants
	if o.CPUs > 0 {
		w.cpus = []string{requestCPUs}
	}
	// The client's listens too, so that a pod that runs has the tool.
	if err := p.build(&o, w, []string{"iperf3", "--server", "--port", strconv.Itoa(TCPPort)}); err != nil {
		return nil, err
	}
	for _, side := range p.Sides() {
		// Not for readiness: that would connect again and again while the tool measures.
		side.Pod.Spec.Containers[0].StartupProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(TCPPort)}},
			PeriodSeconds: 1, FailureThreshold: 60,
		}
	}
	return p, nil
}

// tcp has the client send one stream for so many seconds.
func (o *Options) tcp() Tool {
	return Tool{
		Figure:  tools.Figure{Name: "throughput", Unit: "Gbit/s", HigherIsBetter: true},
		Seconds: o.Seconds, Limit: time.Duration(o.Seconds) * time.Second,
		Measure: func(e Ends) []string {
			return []string{
				"iperf3", "--client", e.Server.Address.String(), "--bind", e.Client.Address.String(), "--port", strconv.Itoa(TCPPort),
				"--time", strconv.Itoa(o.Seconds), "--connect-timeout", "10000", "--json",
			}
		},
		Read: func(out io.Reader) (Reading, error) {
			result, err := iperf3.Parse(out)
			if err != nil {
				return Reading{}, err
			}
			if result.Protocol != "TCP" {
				return Reading{}, errors.New("iperf3 -J: it measured " + printable.Text(result.Protocol) + ", want TCP")
			}
			return Reading{
				Value: result.Received.Value, Version: result.Version, Retransmits: result.Retransmits,
				Load: Load{Unit: Bytes, Said: result.Received.Value * 1e9 / 8 * float64(o.Seconds), Fewest: 0.9, Most: 1.3},
			}, nil
		},
	}
}
