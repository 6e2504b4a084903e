// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// plugged is a device of a plugin of NVIDIA's GPU at a slot, as an agent says it.
func plugged(resource string, slot int, pod string) deviceplugin.Device {
	d := deviceplugin.Device{
		Resource: resource, ID: fmt.Sprintf("GPU-%d", slot),
		Function: &deviceplugin.Function{
			Address: fmt.Sprintf("0000:%x:00.0", 0x8f+slot), Root: fmt.Sprintf("pci0000:%x", 0x8c+slot/2), RootPublished: true,
			NUMANode: ptr.To(0), Class: 0x030200, Vendor: 0x10de, Device: 0x2335, Product: "GH100 [H200 SXM 141GB]", Driver: "nvidia",
		},
	}
	if pod != "" {
		d.Held = &deviceplugin.Holder{Namespace: "team", Pod: pod, Container: "main"}
	}
	return d
}

func reportOf(devices ...deviceplugin.Device) *deviceplugin.Report {
	return &deviceplugin.Report{APIVersion: deviceplugin.APIVersion, Kind: deviceplugin.Kind, Node: "n1", Devices: devices}
}

func withPlugins(t *testing.T, c Cluster, r *deviceplugin.Report) *topoview.Topology {
	t.Helper()
	v, err := c.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.AddPlugins(r); err != nil {
		t.Fatal(err)
	}
	return v.Topology()
}

func deviceAt(t *testing.T, top *topoview.Topology, address string) topoview.Device {
	t.Helper()
	all := top.AllDevices()
	at := slices.IndexFunc(all, func(d topoview.Device) bool { return d.Address == address })
	if at < 0 {
		t.Fatalf("%s is not drawn", address)
	}
	return all[at]
}

// A device plugin's GPUs are drawn with the pods that have them, and the node's own are
// told to have two owners where a driver publishes them, too.
func TestPlugins(t *testing.T) {
	top := withPlugins(t, splitNode(), reportOf(
		plugged("nvidia.com/gpu", 4, "train-0"), plugged("nvidia.com/gpu", 5, "train-0"), plugged("nvidia.com/gpu", 6, ""),
		plugged("nvidia.com/gpu", 2, ""), plugged("nvidia.com/gpu", 3, "thief"),
		deviceplugin.Device{Resource: "nvidia.com/mig-1g.18gb", ID: "MIG-7", Held: &deviceplugin.Holder{Namespace: "team", Pod: "mig-0", Container: "main"}},
	))
	var text, picture bytes.Buffer
	if err := topoview.Text(&text, top, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/plugins.txt", text.String())
	if err := svg.Topology(&picture, top); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/plugins.svg", picture.String())
	encoded, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"extendedResource": "nvidia.com/gpu"`, `"devicePluginPods"`, `"owners"`} {
		if !strings.Contains(string(encoded), want) {
			t.Errorf("the JSON form lacks %s", want)
		}
	}
}

func TestPluginOwners(t *testing.T) {
	for name, tt := range map[string]struct {
		device  deviceplugin.Device
		owners  []string
		holders int
		notes   []string
	}{
		"a GPU of the plugin alone":   {plugged("nvidia.com/gpu", 6, "train-0"), nil, 1, nil},
		"nobody has it yet":           {plugged("nvidia.com/gpu", 6, ""), nil, 0, nil},
		"of a driver, too":            {plugged("nvidia.com/gpu", 3, ""), []string{"gpu.nvidia.com", "nvidia.com/gpu"}, 1, []string{"1 device has two owners"}},
		"held by both":                {plugged("nvidia.com/gpu", 3, "thief"), []string{"gpu.nvidia.com", "nvidia.com/gpu"}, 2, []string{"1 device has two owners", "gpu-3 is held twice"}},
		"of which a driver has parts": {plugged("nvidia.com/gpu", 1, "thief"), []string{"gpu.nvidia.com", "nvidia.com/gpu"}, 2, []string{"1 device has two owners", "0000:90:00.0 is held twice"}},
		"a virtual function of a NIC's": {deviceplugin.Device{Resource: "example.com/vf", ID: "0000:9f:00.1", Held: &deviceplugin.Holder{Namespace: "team", Pod: "vf-0"}, Function: &deviceplugin.Function{
			Address: "0000:9f:00.1", Root: "pci0000:9c", Class: 0x020000, Vendor: 0x15b3, Device: 0x101e,
		}}, nil, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			top := withPlugins(t, splitNode(), reportOf(tt.device))
			d := deviceAt(t, top, tt.device.Function.Address)
			if !slices.Equal(d.Owners, tt.owners) || len(d.Claims) != tt.holders || d.Resource != tt.device.Resource {
				t.Errorf("%+v", d)
			}
			var notes []string
			for _, n := range top.Notes {
				if strings.Contains(n, "two owners") || strings.Contains(n, "held twice") {
					notes = append(notes, n)
				}
			}
			if len(notes) != len(tt.notes) || !slices.EqualFunc(notes, tt.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", notes, tt.notes)
			}
		})
	}
}

// A GPU that a pod has of a device plugin is free for no claim.
func TestPluggedIsNotFree(t *testing.T) {
	c := splitNode()
	c.Claims = nil
	top := withPlugins(t, c, reportOf(plugged("nvidia.com/gpu", 0, "train-0"), plugged("nvidia.com/gpu", 2, "train-1"), plugged("nvidia.com/gpu", 6, "")))
	if got := top.Capacity.GPUs; got != (topoview.Count{Free: 1, Total: 3}) {
		t.Errorf("%+v, want gpu-3 alone of what claims can have", got)
	}
	if top.Counts.GPUs != 4 {
		t.Errorf("%d GPUs, want that of the plugin alone counted", top.Counts.GPUs)
	}
}

// Pods that share a GPU through a device plugin are counted, one with two containers once.
func TestPluggedReplicas(t *testing.T) {
	again := plugged("nvidia.com/gpu.shared", 6, "a")
	again.Held.Container = "sidecar"
	top := withPlugins(t, splitNode(), reportOf(plugged("nvidia.com/gpu.shared", 6, "a"), again, plugged("nvidia.com/gpu.shared", 6, "b"), plugged("nvidia.com/gpu.shared", 6, "")))
	if d := deviceAt(t, top, "0000:95:00.0"); d.SharedBy != 2 || len(d.Plugged) != 2 {
		t.Errorf("%+v", d)
	}
}

func TestUnreadablePlugin(t *testing.T) {
	v, err := splitNode().Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	bad := plugged("nvidia.com/gpu", 6, "")
	bad.Function.Address = "nowhere"
	if err := v.AddPlugins(reportOf(bad)); err == nil || !strings.Contains(err.Error(), "nvidia.com/gpu GPU-6") {
		t.Errorf("%v, want the device named", err)
	}
}
