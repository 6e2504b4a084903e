// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"strconv"

	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// countCPUs says what the node's CPUs are for whenever somebody asks for the
// figures.
func (a *agent) countCPUs(ctx context.Context) {
	for _, p := range a.preparers {
		if p.Pinner == nil {
			continue
		}
		a.metrics.CPUsFrom(func() metrics.CPUs {
			records, _, err := p.Journal.List(p.Name())
			if err != nil {
				klog.FromContext(ctx).Error(err, "held CPUs are not counted")
			}
			records = slices.DeleteFunc(records, func(r driver.Record) bool { return r.BootID != p.BootID })
			m := a.merged.Current()
			return cpusOf(m, slicecodec.ReservedCPUs(m, a.CPUs), records, p.Pinner)
		})
	}
}

// cpusOf counts CPUs and claims.
func cpusOf(m *model.Machine, reserved cpuset.CPUSet, records []driver.Record, pinner driver.Pinner) metrics.CPUs {
	out := metrics.CPUs{Nodes: map[string]map[string]int{}, Claims: map[int]int{}}
	held := cpuset.New()
	for _, r := range records {
		pin, err := pinner.Exclusive([]driver.Record{r})
		if err != nil {
			continue // the claim says so
		}
		held = held.Union(pin.CPUs)
		out.Claims[pin.CPUs.Size()]++
	}
	for _, c := range m.CPUs {
		node, state := "none", "available"
		if c.NUMANode != nil {
			node = strconv.Itoa(*c.NUMANode)
		}
		switch {
		case held.Contains(c.ID):
			state = "allocated"
		case !c.Online:
			state = "offline"
		case reserved.Contains(c.ID):
			state = "reserved"
		}
		if out.Nodes[node] == nil {
			out.Nodes[node] = map[string]int{"allocated": 0, "available": 0, "reserved": 0}
		}
		out.Nodes[node][state]++
	}
	return out
}
