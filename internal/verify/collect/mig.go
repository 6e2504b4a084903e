// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/procfs"
)

// Where NVIDIA's driver says which capability file is for which instance of a GPU
// (MIG). The list has the files of all instances that there can be, of 32 GPUs some
// 100 KiB; the directories are those of the instances that there are.
const (
	nvidiaCapsDriver = "nvidia-caps"
	migMinorsPath    = "driver/nvidia-caps/mig-minors"
	capabilitiesPath = "driver/nvidia/capabilities"
	maxMIGMinors     = 1 << 20
)

// capabilities are the node's capability files of MIG instances, read once a scan.
type capabilities struct {
	// major is of all of them; empty where err says why it is not known.
	major string
	err   error
	// listed says that minors were read, which takes a container with such a file.
	listed    bool
	minors    map[int]procfs.MIGInstance
	minorsErr error
}

func (r *Reader) nodeCapabilities() *capabilities {
	if r.caps != nil {
		return r.caps
	}
	r.caps = &capabilities{}
	text, err := r.read("devices")
	if err != nil {
		r.caps.err = fmt.Errorf("numbers of capability files: %w", err)
		return r.caps
	}
	if major, ok := procfs.ParseCharMajor(text, nvidiaCapsDriver); ok {
		r.caps.major = strconv.Itoa(major)
	} else {
		r.caps.err = fmt.Errorf("/proc/devices has no %s: which capability files NVIDIA's driver has is not known", nvidiaCapsDriver)
	}
	return r.caps
}

// instanceOf is what the capability file of a minor opens.
func (r *Reader) instanceOf(minor int) (m procfs.MIGInstance, is bool, err error) {
	c := r.nodeCapabilities()
	if !c.listed {
		c.listed = true
		if c.minors, c.minorsErr = r.migMinors(); errors.Is(c.minorsErr, fs.ErrNotExist) {
			c.minors, c.minorsErr = r.liveInstances()
		}
	}
	m, is = c.minors[minor]
	return m, is, c.minorsErr
}

func (r *Reader) migMinors() (map[int]procfs.MIGInstance, error) {
	f, err := r.proc.Open(migMinorsPath)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMIGMinors))
	if err != nil {
		return nil, fmt.Errorf("read /proc/%s: %w", migMinorsPath, err)
	}
	return procfs.ParseMIGMinors(text), nil
}

// liveInstances asks the directories of capabilities, gpuN/mig/giM/ciK.
func (r *Reader) liveInstances() (map[int]procfs.MIGInstance, error) {
	minors := map[int]procfs.MIGInstance{}
	add := func(dir string, m procfs.MIGInstance) {
		if text, err := r.read(dir + "/access"); err == nil {
			if minor, err := procfs.ParseCapabilityMinor(text); err == nil {
				minors[minor] = m
			}
		}
	}
	gpus, err := r.numbered(capabilitiesPath, "gpu")
	if err != nil {
		return nil, fmt.Errorf("which GPU instance a capability file is for: %w", err)
	}
	for gpu, dir := range gpus {
		instances, _ := r.numbered(dir+"/mig", "gi") // of a GPU that is whole there are none
		for instance, dir := range instances {
			add(dir, procfs.MIGInstance{GPU: gpu, Instance: instance})
			computes, _ := r.numbered(dir, "ci")
			for compute, dir := range computes {
				add(dir, procfs.MIGInstance{GPU: gpu, Instance: instance, Compute: &compute})
			}
		}
	}
	return minors, nil
}

// numbered lists the directories called prefix and a number, by the number.
func (r *Reader) numbered(dir, prefix string) (map[int]string, error) {
	entries, err := r.proc.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[int]string{}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 {
			found[n] = dir + "/" + e.Name()
		}
	}
	return found, nil
}

// capabilityFiles finds among the device files of a container those that open
// instances of GPUs.
func (r *Reader) capabilityFiles(devices []deviceFile) ([]Capability, error) {
	caps := r.nodeCapabilities()
	if caps.err != nil {
		return nil, caps.err
	}
	var found []Capability
	for _, d := range devices {
		major, number, _ := strings.Cut(d.number, ":")
		minor, err := strconv.Atoi(number)
		if major != caps.major || err != nil {
			continue
		}
		m, is, err := r.instanceOf(minor)
		if err != nil {
			return nil, fmt.Errorf("%s in the container: %w", d.path, err)
		}
		if !is {
			continue // another capability's, such as that of making instances
		}
		address, ok := r.gpus[m.GPU]
		if !ok {
			return nil, fmt.Errorf("%s in the container: NVIDIA's driver does not say in /proc/%s which GPU has the minor %d", d.path, nvidiaDirPath, m.GPU)
		}
		found = append(found, Capability{Path: d.path, Number: d.number, PCI: address, Instance: m.Instance, Compute: m.Compute})
	}
	return found, nil
}
