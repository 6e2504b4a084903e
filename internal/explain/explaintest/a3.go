// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"bytes"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

// A3NICs are the NICs of an A3 Ultra, two to a root.
var A3NICs = []string{
	"pci-0000-91-00-0", "pci-0000-92-00-0", "pci-0000-98-00-0", "pci-0000-99-00-0",
	"pci-0000-c6-00-0", "pci-0000-c7-00-0", "pci-0000-cd-00-0", "pci-0000-ce-00-0",
}

// A3 is a number of A3 Ultra machines, called a3-ultragpu-8g-0 and so on, with
// the device classes that plumbline ships.
func A3(tb testing.TB, n int) snapshot.Objects {
	tb.Helper()
	s := snapshot.Objects{Source: "test", Minor: allocation.NewestMinor, Gates: allocation.DefaultGates(allocation.NewestMinor), Classes: ShippedClasses(tb)}
	// One is read and the others are like it: reading takes its time.
	var first []*resourceapi.ResourceSlice
	for i := range n {
		node := fmt.Sprintf("a3-ultragpu-8g-%d", i)
		if i == 0 {
			first = Machine(tb, "a3-ultragpu-8g", node)
			s.Slices = append(s.Slices, first...)
			continue
		}
		for k, slice := range first {
			other := slice.DeepCopy()
			other.Name = fmt.Sprintf("%s-%d", node, k)
			other.Spec.NodeName, other.Spec.Pool.Name = &node, node
			s.Slices = append(s.Slices, other)
		}
	}
	return s
}

// Machine is what a node with the hardware of a shipped machine publishes.
func Machine(tb testing.TB, name, node string) []*resourceapi.ResourceSlice {
	tb.Helper()
	file, err := machine.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	published, _, err := nodeslices.OfFile(tb.Context(), file, nodeslices.Options{Node: node})
	if err != nil {
		tb.Fatal(err)
	}
	all := make([]*resourceapi.ResourceSlice, len(published))
	for i := range published {
		all[i] = &published[i]
	}
	return all
}

// ShippedClasses are the device classes that plumbline ships.
func ShippedClasses(tb testing.TB) map[string]*resourceapi.DeviceClass {
	tb.Helper()
	all := map[string]*resourceapi.DeviceClass{}
	for _, document := range bytes.Split(deploy.DeviceClasses(), []byte("\n---\n")) {
		var c resourceapi.DeviceClass
		if err := yaml.Unmarshal(document, &c); err != nil {
			tb.Fatal(err)
		}
		if c.Name != "" {
			all[c.Name] = &c
		}
	}
	return all
}
