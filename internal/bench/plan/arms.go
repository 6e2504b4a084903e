// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// hasRDMA is of NICs with an RDMA device.
const hasRDMA = `"rdma" in device.attributes["` + slicecodec.DriverNet + `"] && device.attributes["` + slicecodec.DriverNet + `"].rdma`

// idle is the command of pods in which the tool runs when it is told to.
var idle = []string{"tail", "-f", "/dev/null"}

// nearAndFar gives a plan arms that differ in their NIC or in their CPUs.
func (p *Plan) nearAndFar(o *Options) (wants, error) {
	w := wants{node: slicecodec.AttrLegacyNUMANode}
	if o.RDMA {
		w.selectors = []string{hasRDMA}
	}
	switch o.Variable {
	case NIC:
		err := p.nearAndFarNIC(o, &w)
		return w, err
	case CPUs:
		err := p.nearAndFarCPUs(o, &w)
		return w, err
	}
	return w, fmt.Errorf("%w: variable %q: want %s or %s", ErrOptions, o.Variable, NIC, CPUs)
}

func (p *Plan) nearAndFarCPUs(o *Options, w *wants) error {
	switch {
	case o.Against != "":
		return fmt.Errorf("%w: other NICs, where the arms differ in CPUs: want one of both", ErrOptions)
	case o.CPUs == 0:
		return fmt.Errorf("%w: no CPUs, where the arms differ in these: want a number above 0", ErrOptions)
	}
	p.A = Arm{Name: "near", Request: requestA, Interface: interfaceA, CPUs: requestCPUs}
	p.B = Arm{Name: "far", Request: requestA, Interface: interfaceA, CPUs: requestFarCPUs}
	w.cpus = []string{requestCPUs, requestFarCPUs}
	w.near, w.far = [][]string{{requestA, requestCPUs}}, [][]string{{requestA, requestFarCPUs}}
	return nil
}

func (p *Plan) nearAndFarNIC(o *Options, w *wants) error {
	switch {
	case o.RDMA && (o.Against == "" || o.Against == PodNetwork):
		return fmt.Errorf("%w: against %q, which has no RDMA: want %s, or an expression that other NICs fulfil", ErrOptions, o.Against, Misaligned)
	case o.Against == "":
		return fmt.Errorf("%w: nothing to compare with: want %s, %s, or an expression that other NICs fulfil", ErrOptions, PodNetwork, Misaligned)
	case o.Against == Misaligned && o.CPUs == 0:
		return fmt.Errorf("%w: no CPUs that a NIC could be misaligned with: want a number above 0", ErrOptions)
	}
	p.A = Arm{Name: requestA, Request: requestA, Interface: interfaceA}
	p.B = Arm{Name: requestB, Request: requestB, Interface: interfaceB}
	if o.CPUs > 0 {
		w.cpus = []string{requestCPUs}
	}
	switch o.Against {
	case PodNetwork:
		p.B = Arm{Name: PodNetwork, Interface: PodNetwork}
	case Misaligned:
		p.A.Name, p.B.Name = "aligned", Misaligned
		w.near, w.far = [][]string{{requestA, requestCPUs}}, [][]string{{requestB, requestCPUs}}
	}
	return nil
}

// nics is how many each pod claims.
func (p *Plan) nics() int {
	if p.B.Request == "" || p.A.Request == p.B.Request {
		return 1
	}
	return 2
}

// limited is a command that is killed after so many seconds, and bound to an end's CPUs: the
// end of the command that began it in a pod is no end of it.
func limited(end End, seconds string, command ...string) []string {
	words := append([]string{"timeout", "-s", "KILL", seconds}, command...)
	if end.CPUs != "" {
		words = append([]string{"taskset", "-c", end.CPUs}, words...)
	}
	return words
}

// needs are the programs of limited, beside one of the tool's own.
func (o *Options) needs(program string) []string {
	all := []string{program, "timeout", "cat"}
	if o.Variable == CPUs {
		all = append(all, "taskset")
	}
	return all
}
