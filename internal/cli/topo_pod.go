// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
)

// pod shows the devices of the pod that this runs in. What is not mounted there
// is left out: /sys is all that it needs.
func (o *topoOptions) pod(ctx context.Context, out, errOut io.Writer) error {
	name, err := os.Hostname()
	if err != nil {
		name = "this pod"
	}
	p, problems, err := lookAround(ctx, os.DirFS(o.sys), os.DirFS("/"), name)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Fprintln(errOut, "left out:", problem)
	}
	if o.output == "text" {
		return topoview.PodText(out, p)
	}
	return cmdutil.Encode(out, o.output, p)
}

// lookAround scans sys, and reads /proc and /dev below root as far as they are
// there.
func lookAround(ctx context.Context, sys, root fs.FS, name string) (*topoview.Pod, []inventory.Problem, error) {
	m, problems, err := inventory.Scan(ctx, inventory.Sources{Sys: sys}, inventory.Options{
		Name: name, Virtual: func(i model.Interface) bool { return i.Name != "lo" },
	})
	if err != nil {
		return nil, nil, err
	}
	files, more := sysfs.ReadDRM(sys)
	problems = append(problems, more...)
	addNvidia(files, root)
	ports, more := rdmaPorts(sys, m)
	problems = append(problems, more...)
	self := topoview.PodSelf{Name: name, GPUFiles: files, RDMAPorts: ports, HasFile: func(file string) bool {
		_, err := fs.Stat(root, file[1:])
		return err == nil
	}}
	if text, err := fs.ReadFile(root, "proc/self/status"); err == nil {
		if s, err := procfs.ParseStatus(text); err == nil {
			self.CPUs, self.Mems = &s.CPUs, &s.Mems
		}
	}
	return topoview.BuildPod(m, self), problems, nil
}

// rdmaPorts are the ports of the RDMA devices that the scan found, by device.
func rdmaPorts(sys fs.FS, m *model.Machine) (map[string][]topoview.RDMAPort, []inventory.Problem) {
	all := map[string][]topoview.RDMAPort{}
	var problems []inventory.Problem
	for _, n := range m.NICs {
		if n.RDMA == nil {
			continue
		}
		ports, more := sysfs.ReadRDMAPorts(sys, n.RDMA.Name)
		problems = append(problems, more...)
		for _, p := range ports {
			all[n.RDMA.Name] = append(all[n.RDMA.Name], topoview.RDMAPort{
				Number: p.Number, State: ptr.Deref(p.State, ""), Interface: ptr.Deref(p.NetDevice, ""),
			})
		}
	}
	return all, problems
}

// addNvidia adds the files of NVIDIA's GPUs, which its driver lists in /proc
// only.
func addNvidia(files map[model.PCIAddress][]string, root fs.FS) {
	const dir = "proc/driver/nvidia/gpus"
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return // another driver, or none
	}
	for _, e := range entries {
		address, err := model.ParsePCIAddress(e.Name())
		if err != nil {
			continue
		}
		text, err := fs.ReadFile(root, path.Join(dir, e.Name(), "information"))
		if err != nil {
			continue
		}
		if minor, err := procfs.ParseGPUMinor(text); err == nil {
			files[address] = append(files[address], fmt.Sprintf("/dev/nvidia%d", minor))
		}
	}
}
