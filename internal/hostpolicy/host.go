// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/hostsetup"
)

// HostPolicy is what the host itself must be. What is empty stays as it is.
type HostPolicy struct {
	// Modules are kernel modules to load, as the kernel spells them.
	Modules []string
	// Sysctls are settings of the host by key, such as net.core.rmem_max.
	Sysctls map[string]string
	// RDMANamespaces is whether network namespaces share RDMA devices.
	RDMANamespaces rdma.Mode
}

const (
	fieldModule         = hostsetup.FieldModule
	fieldRDMANamespaces = "rdmaNamespaces"
)

// numbers are what a setting takes: as many as count, each from least to most.
type numbers struct{ count, least, most int }

const maxInt32 = 1<<31 - 1

// hostSysctls are the settings of the host's network that a policy may set: buffers and
// queues that fast NICs need. Others are hostsetup's.
var hostSysctls = map[string]numbers{
	"net.core.netdev_budget":      {1, 1, 1 << 20},
	"net.core.netdev_max_backlog": {1, 1, 1 << 20},
	"net.core.rmem_default":       {1, 4096, maxInt32},
	"net.core.rmem_max":           {1, 4096, maxInt32},
	"net.core.wmem_default":       {1, 4096, maxInt32},
	"net.core.wmem_max":           {1, 4096, maxInt32},
	"net.ipv4.tcp_mtu_probing":    {1, 0, 2},
	"net.ipv4.tcp_rmem":           {3, 4096, maxInt32},
	"net.ipv4.tcp_wmem":           {3, 4096, maxInt32},
}

func (h HostPolicy) validate() error {
	var errs []error
	for i, m := range h.Modules {
		if err := (hostsetup.Change{Field: fieldModule + m, Value: present}).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("modules[%d]: %w", i, err))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h.Sysctls)) {
		if err := validateHostSysctl(key, h.Sysctls[key]); err != nil {
			errs = append(errs, fmt.Errorf("sysctls[%q]: %w", key, err))
		}
	}
	switch h.RDMANamespaces {
	case "", rdma.Shared, rdma.Exclusive:
	default:
		errs = append(errs, fmt.Errorf("rdmaNamespaces: %q: want %s or %s", h.RDMANamespaces, rdma.Shared, rdma.Exclusive))
	}
	return errors.Join(errs...)
}

func validateHostSysctl(key, value string) error {
	takes, ours := hostSysctls[key]
	if !ours {
		if _, theirs := hostsetup.Sysctls[key]; theirs {
			return hostsetup.Change{Field: fieldSysctl + key, Value: value}.Validate()
		}
		return fmt.Errorf("a policy may not set it: want one of %s", strings.Join(slices.Sorted(maps.Keys(allHostSysctls())), ", "))
	}
	words := strings.Fields(value)
	ok := len(words) == takes.count && strings.Join(words, " ") == value
	for _, w := range words {
		n, err := strconv.Atoi(w)
		ok = ok && err == nil && n >= takes.least && n <= takes.most && strconv.Itoa(n) == w
	}
	if !ok {
		return fmt.Errorf("%q: want %d numbers with a space between, each %d-%d", value, takes.count, takes.least, takes.most)
	}
	return nil
}

func allHostSysctls() map[string]bool {
	all := map[string]bool{}
	for key := range hostSysctls {
		all[key] = true
	}
	for key := range hostsetup.Sysctls {
		all[key] = true
	}
	return all
}

// wants are the values by field.
func (h HostPolicy) wants() map[string]string {
	wants := map[string]string{}
	for _, m := range h.Modules {
		wants[fieldModule+m] = present
	}
	for key, value := range h.Sysctls {
		wants[fieldSysctl+key] = value
	}
	if h.RDMANamespaces != "" {
		wants[fieldRDMANamespaces] = string(h.RDMANamespaces)
	}
	return wants
}
