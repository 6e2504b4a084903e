// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeslices says which ResourceSlices a node with some hardware would
// publish, from a machine file. Publishing them is the agent's, naming what is
// in them model/slicecodec's.
package nodeslices

import (
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/aws"
	"plumbline.dev/plumbline/internal/cloud/azure"
	"plumbline.dev/plumbline/internal/cloud/gce"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// standIn is what stands in for the hardware of a node that does not exist.
const standIn = "simulated node"

// Options are what OfFile is told beside the file.
type Options struct {
	// Node is the node's name; by default the machine's.
	Node string
	// Simulated marks every GPU and NIC as simulated.
	Simulated bool
}

// NodeName is the name of a node of a machine for which no other is given.
func NodeName(machineName string) string {
	if machineName == "" {
		return "node"
	}
	return strings.ToLower(machineName)
}

// OfFile is the slices of all drivers. A recording does not say which products
// its GPUs are, so it has none of gpu.nvidia.com. The problems are what was left
// out of the machine.
func OfFile(ctx context.Context, file *machine.File, o Options) ([]resourceapi.ResourceSlice, []inventory.Problem, error) {
	node := o.Node
	if node == "" {
		node = NodeName(file.Name)
	}
	if wrong := validation.IsDNS1123Subdomain(node); len(wrong) > 0 {
		return nil, nil, fmt.Errorf("node name %q: %s", node, strings.Join(wrong, "; "))
	}
	scan := inventory.Options{Name: file.Name, Architecture: file.Arch}
	if o.Simulated {
		scan.Simulated = standIn
	}
	var source inventory.GPUs
	drivers := []string{slicecodec.DriverNet, slicecodec.DriverCPU}
	if file.Facts != nil {
		if gpus := file.Facts.ModelGPUs(); len(gpus) > 0 {
			source = inventory.Listed(gpus)
			if o.Simulated {
				source = inventory.Simulated{Facts: gpus, StandIn: standIn, Node: node}
			}
			drivers = append(drivers, slicecodec.DriverGPU)
		}
	}
	m, problems, err := inventory.Scan(ctx, inventory.Sources{Sys: file.Tree, GPUs: source}, scan)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", file.Source, err)
	}
	if file.Facts != nil {
		describe(m, file.Facts)
	}
	var all []resourceapi.ResourceSlice
	for _, driver := range drivers {
		all = append(all, Of(m, driver, node)...)
	}
	return all, problems, nil
}

// describe says of each NIC what its cloud would, as far as the file does: its metadata,
// and by a topology file the GPU that it belongs to.
func describe(m *model.Machine, f *machine.Facts) {
	networks := map[string]string{}
	for _, n := range f.NICs {
		networks[n.Address.String()] = n.Network
	}
	for i := range m.NICs {
		n := &m.NICs[i]
		if n.PCI != nil {
			n.Attributes = attributes(f, cloud.DeviceOf(*n), networks[n.PCI.String()])
			n.PairedGPU = f.PairedGPU(*n.PCI)
		}
	}
}

// attributes are those of a device on a network, by the provider that a file
// names.
func attributes(f *machine.Facts, d cloud.Device, network string) map[string]model.Attribute {
	switch {
	case f.Provider == "gcp" && network != "":
		return gce.Attributes(network)
	case f.Provider == "aws" && f.InstanceType != "":
		return aws.Attributes(f.InstanceType, d)
	case f.Provider == "azure" && f.InstanceType != "":
		return azure.Attributes(f.InstanceType)
	}
	return nil
}

// Of is the slices of one driver's pool, the first of their generation.
func Of(m *model.Machine, driver, node string) []resourceapi.ResourceSlice {
	parts := slicecodec.Split(slicecodec.Encode(m, driver, slicecodec.CPUOptions{}))
	published := make([]resourceapi.ResourceSlice, len(parts))
	for i, devices := range parts {
		published[i] = resourceapi.ResourceSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", node, driver, i)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver:   driver,
				NodeName: &node,
				Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(parts))},
				Devices:  devices,
			},
		}
	}
	return published
}
