// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

const (
	gpuDriver = slicecodec.DriverGPU
	checkGPUs = "gpu-slices"
	// fixGPUs is the first release that publishes all that claims compare (docs/claims.md).
	fixGPUs = "install NVIDIA's DRA driver for GPUs, " + slicecodec.NUMANodeOfGPUsSince + " or newer"
)

// published are the GPUs that NVIDIA's driver publishes of a node.
type published struct {
	devices, withRoot, withNode int
	// version is the kernel driver's; empty where no device says it.
	version string
	// writers are who wrote the slices lately.
	writers []string
}

// lately is how long a publisher may take to write over what another has written: the library
// of DRA drivers takes half a minute (k8s.io/dynamic-resource-allocation/resourceslice,
// DefaultSyncDelay).
const lately = 5 * time.Minute

// gpus are what NVIDIA's driver publishes; nil where slices may not be listed.
type gpus struct {
	of map[string]published
	// expected says that somebody is to publish GPUs: those of some node are published, or
	// claims have the class that NVIDIA's chart makes.
	expected bool
}

// listGPUs reads the slices of NVIDIA's driver, of one node, or of all with "".
func (c *client) listGPUs(ctx context.Context, node string) (*gpus, error) {
	selector := resourceapi.ResourceSliceSelectorDriver + "=" + gpuDriver
	if node != "" {
		selector += "," + resourceapi.ResourceSliceSelectorNodeName + "=" + node
	}
	all := &gpus{of: map[string]published{}}
	err := each(ctx, metav1.ListOptions{FieldSelector: selector}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.ResourceV1().ResourceSlices().List(ctx, o)
	}, all.add)
	// Without the right, or without DRA, nothing is said of them.
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices of %s: %w", gpuDriver, err)
	}
	if all.expected = len(all.of) > 0; !all.expected {
		all.expected, err = c.expectsGPUs(ctx, node)
	}
	return all, err
}

// expectsGPUs says whether GPUs are to be published though the slices that were read, of one
// node or of all with "", have none: a driver that is gone takes its slices along.
func (c *client) expectsGPUs(ctx context.Context, node string) (bool, error) {
	if node != "" {
		list, err := c.core.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
			FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + gpuDriver, Limit: 1,
		})
		if err != nil {
			return false, fmt.Errorf("list ResourceSlices of %s on other nodes: %w", gpuDriver, err)
		}
		if len(list.Items) > 0 {
			return true, nil
		}
	}
	_, err := c.core.ResourceV1().DeviceClasses().Get(ctx, gpuDriver, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read DeviceClass %s: %w", gpuDriver, err)
	}
	return true, nil
}

func (g *gpus) add(s *resourceapi.ResourceSlice) {
	if s.Spec.Driver != gpuDriver || s.Spec.NodeName == nil {
		return
	}
	p := g.of[*s.Spec.NodeName]
	p.writers = append(p.writers, slicecodec.Writers(s, time.Now().Add(-lately))...)
	slices.Sort(p.writers)
	p.writers = slices.Compact(p.writers)
	for i := range s.Spec.Devices {
		attributes := s.Spec.Devices[i].Attributes
		p.devices++
		if _, ok := attributes[slicecodec.AttrPCIeRoot]; ok {
			p.withRoot++
		}
		if _, ok := attributes[slicecodec.AttrNUMANode]; ok {
			p.withNode++
		}
		if v := attributes["driverVersion"].VersionValue; v != nil {
			p.version = *v
		}
	}
	g.of[*s.Spec.NodeName] = p
}

// finding compares what is published of a node with the GPUs that it has by its report; nil
// where that cannot be said, or there is none by either: a virtual machine may show a GPU under
// another vendor's number.
func (g *gpus) finding(n *corev1.Node, p hosts.HostProfile) *hosts.Finding {
	node := n.Name
	has := 0
	for _, d := range p.Devices {
		if d.Kind == "gpu" && strings.HasPrefix(d.ID, "10de:") {
			has += d.Count
		}
	}
	if g == nil || has == 0 && g.of[node].devices == 0 {
		return nil
	}
	f := &hosts.Finding{
		Check: checkGPUs, Severity: hosts.Functional, Verdict: hosts.Wrong, Subject: gpuDriver, Source: "ResourceSlices of " + printable.Text(node), Fix: fixGPUs,
	}
	offered := pluginGPUs(n)
	switch said := g.of[node]; {
	case len(said.writers) > 1:
		f.Found = "written by " + printable.Text(strings.Join(said.writers, " and ")) + " within minutes"
		f.Want = "one publisher: two write over each other, and give away the same GPU"
		f.Fix = "remove one of the two from the node; drivers.gpu.mode of plumbline's chart is external beside NVIDIA's driver"
	case said.devices > 0 && len(offered) > 0:
		f.Found = "publishes " + plural.Count(said.devices, "device", "devices") + ", and a device plugin offers " + printable.Text(strings.Join(offered, ", "))
		f.Want = "one owner: both may give away the same GPU"
		f.Fix = "switch off one of the two for the node; gpu.nvidia.com serves pods that ask for nvidia.com/gpu, too"
	case len(offered) > 0:
		// A device plugin's may stand beside NICs that are claimed, on this node or on all.
		f.Verdict, f.Fix, f.Found = hosts.OK, "", "publishes no GPU of the node: a device plugin offers "+printable.Text(strings.Join(offered, ", "))
	case !g.expected:
		f.Verdict, f.Fix, f.Found = hosts.OK, "", "publishes no GPU of any node, and no DeviceClass "+gpuDriver+" expects one"
	case said.devices == 0:
		f.Found, f.Want = "publishes none of the node's "+plural.Count(has, "GPU", "GPUs"), "all of them: no claim can have one"
	case said.withRoot < said.devices:
		f.Found = fmt.Sprintf("%d of %s without %s", said.devices-said.withRoot, plural.Count(said.devices, "device", "devices"), slicecodec.AttrPCIeRoot)
		f.Want = "all with it: constraints leave the others out"
	case said.withNode == 0:
		// Slices do not carry the version of the driver that publishes them.
		f.Severity, f.Verdict = hosts.Information, hosts.Unknown
		f.Found = fmt.Sprintf("%s, none with %s: NVIDIA's DRA driver is older than %s, or the kernel names no NUMA node of a GPU",
			said.text(), slicecodec.AttrNUMANode, slicecodec.NUMANodeOfGPUsSince)
		f.Want = "GPUs with it: until then claims compare " + slicecodec.AttrPCIeRoot + " with a NIC's, as plumbline claim new does"
	default:
		f.Verdict, f.Fix, f.Found = hosts.OK, "", said.text()
	}
	return f
}

// text counts the devices and names the kernel driver's version.
func (p published) text() string {
	text := plural.Count(p.devices, "device", "devices")
	if p.version != "" {
		text += ", kernel driver " + printable.Text(p.version)
	}
	return text
}

// pluginGPUs are GPUs, and parts of them, that a device plugin of NVIDIA's offers on a
// node, each with its number. What the DRA driver serves under such a name is in its
// slices alone, and not the kubelet's to count.
func pluginGPUs(n *corev1.Node) []string {
	var offered []string
	for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
		resource, quantity := string(name), n.Status.Allocatable[name]
		whole := strings.TrimSuffix(resource, ".shared") == "nvidia.com/gpu"
		if (whole || strings.HasPrefix(resource, "nvidia.com/mig-")) && quantity.Value() > 0 {
			offered = append(offered, fmt.Sprintf("%d %s", quantity.Value(), resource))
		}
	}
	return offered
}
