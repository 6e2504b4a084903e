// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/host/sriov"
	"plumbline.dev/plumbline/internal/model"
)

// Fields of a change. Those of modules and sysctls end with a name.
const (
	FieldModule          = "module/"
	FieldSysctl          = "sysctl/"
	FieldMaxReadRequest  = "maxReadRequest"
	FieldRelaxedOrdering = "relaxedOrdering"
	FieldNumVFs          = "numVFs"
)

// Values of modules.
const (
	Present = "present"
	Absent  = "absent"
)

// Modules are those that may be loaded, and unloaded again: none of them makes network
// interfaces or drives a NIC, whose unloading would take it from a pod.
var Modules = []string{
	"gdrdrv", "ib_umad", "ib_uverbs", "nv_peer_mem", "nvidia_peermem", "rdma_cm", "rdma_ucm", "tcp_bbr", "vfio_pci",
}

// Sysctls are the settings of the whole kernel that may be set, each with its greatest
// value.
var Sysctls = map[string]int{
	"kernel.numa_balancing": 1,
	"vm.swappiness":         200,
	"vm.zone_reclaim_mode":  7,
}

// Change is a value of the host.
type Change struct {
	// Function is the address of a PCI function; empty for the host itself.
	Function string `json:"function,omitempty"`
	Field    string `json:"field"`
	Value    string `json:"value"`
}

// Validate refuses what nobody may ask.
func (c Change) Validate() error {
	if c.Function == "" {
		return c.validateHost()
	}
	if _, err := model.ParsePCIAddress(c.Function); err != nil {
		return err
	}
	switch c.Field {
	case FieldMaxReadRequest:
		size, err := strconv.Atoi(c.Value)
		if err != nil || bits.OnesCount(uint(size)) != 1 || size < pciconfig.MinReadRequest || size > pciconfig.MaxReadRequest {
			return fmt.Errorf("%s: %q: want a power of two, %d-%d bytes", c.Field, c.Value, pciconfig.MinReadRequest, pciconfig.MaxReadRequest)
		}
	case FieldRelaxedOrdering:
		if c.Value != "true" && c.Value != "false" {
			return fmt.Errorf("%s: %q: want true or false", c.Field, c.Value)
		}
	case FieldNumVFs:
		n, err := strconv.Atoi(c.Value)
		if err != nil || n < 0 || n > sriov.MaxCount || strconv.Itoa(n) != c.Value {
			return fmt.Errorf("%s: %q: want a number, 0-%d", c.Field, c.Value, sriov.MaxCount)
		}
	default:
		return fmt.Errorf("field %q of a PCI function: want %s, %s or %s", c.Field, FieldMaxReadRequest, FieldRelaxedOrdering, FieldNumVFs)
	}
	return nil
}

func (c Change) validateHost() error {
	if module, ok := strings.CutPrefix(c.Field, FieldModule); ok {
		if !slices.Contains(Modules, module) {
			return fmt.Errorf("module %q: want one of %s", module, strings.Join(Modules, ", "))
		}
		if c.Value != Present && c.Value != Absent {
			return fmt.Errorf("module %s: %q: want %s or %s", module, c.Value, Present, Absent)
		}
		return nil
	}
	key, ok := strings.CutPrefix(c.Field, FieldSysctl)
	if !ok {
		return fmt.Errorf("field %q of the host: want %s or %s with a name", c.Field, FieldModule, FieldSysctl)
	}
	most, ok := Sysctls[key]
	if !ok {
		return fmt.Errorf("sysctl %q: want one of %s", key, strings.Join(slices.Sorted(maps.Keys(Sysctls)), ", "))
	}
	n, err := strconv.Atoi(c.Value)
	if err != nil || n < 0 || n > most || strconv.Itoa(n) != c.Value {
		return fmt.Errorf("sysctl %s: %q: want a number, 0-%d", key, c.Value, most)
	}
	return nil
}
