// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodeslices_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

// Every shipped machine makes slices that belong together, of one node.
func TestOfShippedMachines(t *testing.T) {
	for _, name := range machine.Names() {
		file, err := machine.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		published, problems, err := nodeslices.OfFile(context.Background(), file, nodeslices.Options{Node: "n1"})
		if err != nil || len(problems) > 0 {
			t.Fatal(name, err, problems)
		}
		pools, names := map[string]int64{}, map[string]bool{}
		for _, s := range published {
			pools[s.Spec.Driver] += 1
			names[s.Name] = true
			if *s.Spec.NodeName != "n1" || s.Spec.Pool.Name != "n1" || len(s.Spec.Devices) == 0 {
				t.Errorf("%s: slice %s of pool %s on %s has %d devices", name, s.Name, s.Spec.Pool.Name, *s.Spec.NodeName, len(s.Spec.Devices))
			}
		}
		for _, s := range published {
			if s.Spec.Pool.ResourceSliceCount != pools[s.Spec.Driver] {
				t.Errorf("%s: slice %s counts %d slices of %d", name, s.Name, s.Spec.Pool.ResourceSliceCount, pools[s.Spec.Driver])
			}
		}
		if len(names) != len(published) {
			t.Errorf("%s: %d names for %d slices", name, len(names), len(published))
		}
	}
}

func TestNodeNames(t *testing.T) {
	file, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := nodeslices.OfFile(context.Background(), file, nodeslices.Options{Node: "Not A Name"}); err == nil {
		t.Error("a node name that the API refuses is taken")
	}
	if got := nodeslices.NodeName(""); got != "node" {
		t.Errorf("a machine without a name is node %q", got)
	}
}

// A class may select NICs by what their cloud says, as far as a machine file knows:
// an EFA adapter is told from the interfaces beside it.
func TestAttributesOfTheCloud(t *testing.T) {
	for name, want := range map[string]string{
		"aws-p4d.24xlarge":      "efa=true instanceType=p4d.24xlarge ×4; instanceType=p4d.24xlarge ×3",
		"azure-nd96isr-h100-v5": "vmSize=Standard_ND96isr_H100_v5 ×8",
		"a3-ultragpu-8g":        " ×8",
	} {
		file, err := machine.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		published, _, err := nodeslices.OfFile(t.Context(), file, nodeslices.Options{})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, s := range published {
			if s.Spec.Driver != "dra.net" {
				continue
			}
			for _, d := range s.Spec.Devices {
				var words []string
				for _, attribute := range slices.Sorted(maps.Keys(d.Attributes)) {
					domain, id, _ := strings.Cut(string(attribute), "/")
					switch v := d.Attributes[attribute]; {
					case domain != "aws.dra.net" && domain != "azure.dra.net" && domain != "gce.dra.net":
					case v.StringValue != nil:
						words = append(words, id+"="+*v.StringValue)
					case v.BoolValue != nil:
						words = append(words, fmt.Sprintf("%s=%t", id, *v.BoolValue))
					}
				}
				counts[strings.Join(words, " ")]++
			}
		}
		var got []string
		for _, words := range slices.Sorted(maps.Keys(counts)) {
			got = append(got, fmt.Sprintf("%s ×%d", words, counts[words]))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
}

// A class may select NICs by the cloud's network: what a claim of the TPU example
// finds in the cloud it finds here.
func TestNetworksOfTheCloud(t *testing.T) {
	for name, want := range map[string]string{"gcp-ct6e-standard-4t": "eth0=default eth1=tpu-net-1 eth2=tpu-net-2", "egx-t4-cx5": ""} {
		file, err := machine.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		published, _, err := nodeslices.OfFile(t.Context(), file, nodeslices.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range published {
			for _, d := range s.Spec.Devices {
				if network, ok := d.Attributes["gce.dra.net/networkName"]; ok {
					got = append(got, *d.Attributes["dra.net/ifName"].StringValue+"="+*network.StringValue)
				}
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: networks %q, want %q", name, text, want)
		}
	}
}
