// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// Words of --cpu-device-mode and --group-by, which are those of the driver that
// ours succeeds.
const (
	// CPUsGrouped lets claims say how many CPUs of a group they want.
	CPUsGrouped = "grouped"
	// CPUsIndividual makes every CPU a device.
	CPUsIndividual = "individual"
	// CPUsByNUMANode is a word of --group-by.
	CPUsByNUMANode = string(slicecodec.PerNUMANode)
)

// ParseCPUMode reads --cpu-device-mode and --group-by.
func ParseCPUMode(mode, groupBy string) (slicecodec.CPUMode, error) {
	var group slicecodec.CPUMode
	var groups []string
	for _, m := range []slicecodec.CPUMode{slicecodec.PerNUMANode, slicecodec.PerSocket, slicecodec.WholeMachine} {
		groups = append(groups, string(m))
		if groupBy == string(m) {
			group = m
		}
	}
	if group == "" {
		return "", fmt.Errorf("--group-by=%q: want %s", groupBy, strings.Join(groups, ", "))
	}
	switch mode {
	case CPUsGrouped:
		return group, nil
	case CPUsIndividual:
		return slicecodec.SingleCPUs, nil
	}
	return "", fmt.Errorf("--cpu-device-mode=%q: want %s or %s", mode, CPUsGrouped, CPUsIndividual)
}

// besides returns what adds to a claim of CPUs the NICs and GPUs that its pods
// hold by other claims: the kubelet prepares a pod's claims one driver after the
// other, in no order, so that it may be none of them. Where a device is one NUMA
// node anyway, nobody looks.
func besides(mode slicecodec.CPUMode, records *journal.Journal) func(driver.Claim) driver.Claim {
	return func(c driver.Claim) driver.Claim {
		if !spansNodes(mode) {
			return c
		}
		for _, name := range []string{slicecodec.DriverNet, slicecodec.DriverGPU} {
			held, _, err := records.List(name)
			if err != nil {
				continue // it is only about what is better
			}
			for _, r := range held {
				if !slices.ContainsFunc(r.Pods, func(p driver.PodRef) bool { return slices.Contains(c.Pods, p) }) {
					continue
				}
				for _, d := range r.Devices {
					c.Beside = append(c.Beside, driver.DeviceRef{Driver: name, Device: d.Device})
				}
			}
		}
		return c
	}
}

// spansNodes says whether a device of CPUs may be of several NUMA nodes, so that it
// matters where the claim's other devices are.
func spansNodes(mode slicecodec.CPUMode) bool {
	return mode == slicecodec.PerSocket || mode == slicecodec.WholeMachine
}

// locateAtMost is how long Prepare waits for the API server to say where others'
// devices are. It is only about what is better.
const locateAtMost = 2 * time.Second

// locate adds to a claim of CPUs where its devices of drivers are that others serve,
// such as NVIDIA's of its GPUs: as they publish it, and as this machine knows the
// address.
func (a *agent) locate(ctx context.Context, c driver.Claim) driver.Claim {
	if !spansNodes(a.CPUs.Mode) || !othersServe(c.Object, a.offered()) {
		return c
	}
	published, err := a.publishedHere(ctx)
	if err != nil {
		klog.FromContext(ctx).Info("CPUs are chosen without knowing where devices of other drivers are", "claim", c.String(), "reason", err.Error())
		return c
	}
	c.Nodes = nodesOf(c.Object, published, a.merged.Current())
	return c
}

// publishedHere are the node's ResourceSlices, of all drivers.
func (a *agent) publishedHere(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
	ctx, cancel := context.WithTimeout(ctx, locateAtMost)
	defer cancel()
	list, err := a.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, a.NodeName).String(), ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func othersServe(c *resourceapi.ResourceClaim, ours []string) bool {
	return c != nil && c.Status.Allocation != nil &&
		slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return !slices.Contains(ours, r.Driver)
		})
}

// nodesOf are the NUMA nodes of a claim's devices, as far as slices say where they
// are.
func nodesOf(c *resourceapi.ResourceClaim, published []resourceapi.ResourceSlice, m *model.Machine) map[driver.DeviceRef]int {
	nodes := map[driver.DeviceRef]int{}
	for _, d := range expect.ClaimOf(c, expect.PublishedIn(published)).Devices {
		node := d.NUMANode
		if d.PCI != nil {
			if f := m.Function(*d.PCI); f != nil {
				node = f.NUMANode
			}
		}
		if node != nil {
			nodes[driver.DeviceRef{Driver: d.Driver, Device: d.Name}] = *node
		}
	}
	return nodes
}
