// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/model"
)

// Interrupt is one of a device's interrupts.
type Interrupt struct {
	Number int
	// CPUs handle it (/proc/irq/*/effective_affinity_list, else
	// smp_affinity_list).
	CPUs cpuset.CPUSet
}

// Interrupts lists the interrupts of a PCI function (msi_irqs) and the CPUs that
// handle them; what cannot be read is left out.
func (r *Reader) Interrupts(a model.PCIAddress) []Interrupt {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, err := r.sys.ReadDir("bus/pci/devices/" + a.String() + "/msi_irqs")
	if err != nil {
		return nil
	}
	var found []Interrupt
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if cpus := r.affinity(e.Name()); !cpus.IsEmpty() {
			found = append(found, Interrupt{Number: number, CPUs: cpus})
		}
	}
	slices.SortFunc(found, func(a, b Interrupt) int { return cmp.Compare(a.Number, b.Number) })
	return found
}

func (r *Reader) affinity(number string) cpuset.CPUSet {
	for _, file := range []string{"effective_affinity_list", "smp_affinity_list"} {
		text, err := r.read("irq/" + number + "/" + file)
		if err != nil {
			continue
		}
		if cpus, err := procfs.ParseList(string(text)); err == nil && !cpus.IsEmpty() {
			return cpus
		}
	}
	return cpuset.New()
}
