// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"

	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/guard"
)

// hookAtMost is when the container runtime ends a guard that does not end by
// itself, in seconds.
const hookAtMost = 90

// withGuardHooks adds the hooks that keep a container from starting without what the
// record gives it: one for all that is in the pod's network namespace, which each
// container has whole, and one on each device that says where the container may
// run, for a container has those alone that it names. A hook is a process, and they
// run one after the other while the pod waits. The journal does not have them: where
// the program lies is this agent's business.
func (p *Preparer) withGuardHooks(r driver.Record) (driver.Record, []driver.Hook, error) {
	if p.Guard == "" {
		return r, nil, nil
	}
	var inPod []guard.Want
	devices := make([]driver.DeviceRecord, len(r.Devices))
	for i, d := range r.Devices {
		devices[i] = d
		want, ok, err := p.want(r, i)
		if err != nil {
			return r, nil, err
		}
		if !ok {
			continue
		}
		if want.NIC != nil || want.RDMA != nil {
			inPod = append(inPod, want)
			continue
		}
		hook, err := p.hook(want)
		if err != nil {
			return r, nil, err
		}
		devices[i].Edits.Hooks = append(append([]driver.Hook{}, d.Edits.Hooks...), hook)
	}
	r.Devices = devices
	if len(inPod) == 0 {
		return r, nil, nil
	}
	hook, err := p.hook(inPod...)
	return r, []driver.Hook{hook}, err
}

// hook runs the guard for some devices.
func (p *Preparer) hook(wants ...guard.Want) (driver.Hook, error) {
	args, err := guard.Args(wants...)
	return driver.Hook{
		Name: "createRuntime", Path: p.Guard, Args: append([]string{guard.Program}, args...), TimeoutSeconds: hookAtMost,
	}, err
}

// want is what the record's device i means for a container; not ok where
// nothing can be looked for.
func (p *Preparer) want(r driver.Record, i int) (w guard.Want, ok bool, err error) {
	part := r
	part.Devices = r.Devices[i : i+1]
	w = guard.Want{Claim: r.Claim.String(), Device: r.Devices[i].Device}
	if p.InPod != nil {
		nics, err := p.InPod(part)
		if err != nil {
			return w, false, err
		}
		if len(nics) > 0 {
			w.NIC = &nics[0] // a device is one NIC at most
		}
	}
	if p.RDMAInPod != nil {
		if w.RDMA, err = p.RDMAInPod(part); err != nil {
			return w, false, err
		}
		if w.RDMA != nil {
			w.RDMA.Marker = cdi.Marker(r, i)
		}
	}
	if p.Pinner != nil {
		pin, err := p.Pinner.Exclusive([]driver.Record{part})
		if err != nil {
			return w, false, err
		}
		w.CPUs, w.Mems = pin.CPUs.String(), pin.Mems.String()
	}
	return w, w.NIC != nil || w.RDMA != nil || w.CPUs != "" || w.Mems != "", nil
}

// MissingNICs says which of the record's NICs are not in the network namespace
// at path, a sentence each.
func (p *Preparer) MissingNICs(r driver.Record, path string) ([]string, error) {
	var wants []guard.Want
	for i := range r.Devices {
		w, ok, err := p.want(r, i)
		if err != nil {
			return nil, fmt.Errorf("look for the devices of claim %s: %w", r.Claim, err)
		}
		if ok {
			wants = append(wants, w)
		}
	}
	return guard.Missing(path, wants)
}

// writeSpec puts the record's CDI file in place.
func (p *Preparer) writeSpec(r driver.Record) error {
	guarded, hooks, err := p.withGuardHooks(r)
	if err != nil {
		return err
	}
	return p.CDI.Write(p.withMetadata(guarded), hooks...)
}
