// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/model"
)

// view is what has to be read through a container itself: its file systems, and its
// memory, which holds its environment and may be mapped from any file. A read of
// either may block for ever.
type view struct {
	env        map[string]cpuset.CPUSet
	envErr     error
	devices    []deviceFile
	devicesErr error
	links      []link
	linksErr   error
	rdma       []RDMADevice
	rdmaErr    error
}

// viewPod looks into the containers of a pod, by their first processes; 0 is a
// container without. Containers of a pod share one network namespace: it is read
// through the first one that shows it. It shares nothing with a Reader, since it may go
// on running after the scan has given it up. Of RDMA it reads what is of certain PCI
// functions; nothing for none.
func viewPod(o Options, pids []int, rdma []model.PCIAddress) []view {
	views := make([]view, len(pids))
	shown := false
	for i, pid := range pids {
		if pid == 0 {
			continue
		}
		v := &views[i]
		in, err := enter(o, pid)
		if err != nil {
			v.envErr, v.devicesErr, v.linksErr, v.rdmaErr = err, err, err, err
			continue
		}
		v.env, v.envErr = in.envCPUs()
		v.devices, v.devicesErr = in.devices()
		if !shown {
			v.links, v.linksErr = in.links()
			shown = v.linksErr == nil
			if v.rdmaErr = v.linksErr; shown && len(rdma) > 0 {
				v.rdma, v.rdmaErr = in.rdma(rdma)
			}
		}
		in.close()
	}
	return views
}

// envCPUs reads the CPUs in the environment of the container's first process.
func (in *inside) envCPUs() (map[string]cpuset.CPUSet, error) {
	text, err := in.read("environ", maxEnviron)
	if err != nil {
		return nil, fmt.Errorf("environment of the container's first process: %w", err)
	}
	return procfs.GrantedCPUs(text)
}

// shown takes over what the containers of a pod showed; err says why nothing is
// known of it.
func (r *Reader) shown(p *Pod, t Target, views []view, err error) {
	p.Network.Err = ErrGone
	known, devices, rdmaErr := false, []RDMADevice(nil), ErrGone
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Err != nil {
			continue
		}
		if err != nil {
			c.EnvErr, c.FilesErr, p.Network.Err, rdmaErr = err, err, err, err
			continue
		}
		v := &views[i]
		c.EnvCPUs, c.EnvErr = v.env, v.envErr
		if c.FilesErr = v.devicesErr; c.FilesErr == nil {
			c.Files, c.FilesErr = r.files(v.devices)
			c.Capabilities, c.CapabilitiesErr = r.capabilityFiles(v.devices)
		}
		if len(t.RDMA) > 0 && c.FilesErr == nil {
			c.RDMAFiles = r.rdmaFilesOf(v.devices)
		}
		if !known {
			p.Network = r.network(c, v)
			known, devices, rdmaErr = p.Network.Err == nil, v.rdma, v.rdmaErr
		}
	}
	if t.Addresses && p.Network.Err == nil {
		first, _ := firstProcesses(p.Containers)
		p.Network.Addresses, p.Network.AddressesErr = r.localAddresses(slices.Max(first))
	}
	if len(t.RDMA) > 0 {
		r.rdma(p, devices, rdmaErr)
	}
}
