// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

func text(t *testing.T, s snapshot.Objects, subject explain.Subject) (*explain.Report, string) {
	t.Helper()
	r, err := explain.Explain(t.Context(), snapshot.New(s), subject)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

// Names and values that would move a terminal's cursor, or pass for a line of
// the report, are shown as what they are.
func TestHostileNames(t *testing.T) {
	const evil = "x\x1b[2J\x1b]0;owned\x07\r\nnode-1: fits\u202e"
	s := A3(t, 1)
	devices(&s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) { d.Attributes[pcieRoot] = Text(evil) })
	holder := Holding(evil, nicID(0))
	holder.Namespace = evil
	s.Claims = append(s.Claims, holder)
	for _, slice := range s.Slices {
		slice.Name += evil
	}
	claim := Claim(evil, []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic"), Match(evil, evil)}, gpus(1), nics(1, evil), Request(evil, evil, 1))
	for _, c := range []*resourceapi.ResourceClaim{claim, Claim(evil, claim.Spec.Devices.Constraints[:1], gpus(1), nics(1))} {
		_, out := text(t, s, explain.OfClaim(c))
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(line, "node-1: fits") {
				t.Errorf("hostile line %q", line)
			}
		}
	}
}

// Objects that no API server would take are explained, or said to be what they
// are; nothing falls over them.
func TestNonsense(t *testing.T) {
	long := strings.Repeat("a", 1<<16)
	for name, seed := range map[string]func(*snapshot.Objects, *resourceapi.ResourceClaim){
		"nothing at all": func(s *snapshot.Objects, c *resourceapi.ResourceClaim) {
			*s = snapshot.Objects{}
			*c = resourceapi.ResourceClaim{}
		},
		"no nodes":    func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) { s.Slices = nil },
		"no requests": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests = nil },
		"no classes":  func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) { s.Classes = nil },
		"an empty class selector": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			s.Classes["gpu.nvidia.com"].Spec.Selectors = []resourceapi.DeviceSelector{{}}
		},
		"an empty selector": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{}}
		},
		"an empty constraint": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{}}
		},
		"an attribute without a value": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) { d.Attributes[pcieRoot] = resourceapi.DeviceAttribute{} })
		},
		"a version that is none": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) {
				d.Attributes["broken"] = resourceapi.DeviceAttribute{VersionValue: ptr.To("one")}
			})
		},
		"a count below nothing": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.Count = -1 },
		"a count beyond all": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Count = 1 << 62
		},
		"a mode of the future": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.AllocationMode = "Some"
		},
		"two requests of one name": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, c.Spec.Devices.Requests[0])
		},
		"three thousand requests": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			for range 3000 {
				c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, c.Spec.Devices.Requests[0])
			}
		},
		"a hundred constraints": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			for range 100 {
				c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, c.Spec.Devices.Constraints[0])
			}
		},
		"names without end": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests[0].Name, c.Spec.Devices.Requests[0].Exactly.DeviceClassName = long, long
		},
		"an expression without end": func(_ *snapshot.Objects, c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Selectors = Selectors(strings.Repeat("!", 1<<14) + "true")
		},
		"a negative capacity": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			devices(s, "dra.cpu", func(_ int, d *resourceapi.Device) {
				d.Capacity["dra.cpu/cpu"] = resourceapi.DeviceCapacity{Value: resource.MustParse("-3")}
			})
		},
		"a range without steps": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			devices(s, "dra.cpu", func(_ int, d *resourceapi.Device) {
				d.Capacity["dra.cpu/cpu"] = resourceapi.DeviceCapacity{Value: resource.MustParse("8"), RequestPolicy: &resourceapi.CapacityRequestPolicy{
					ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1")), Step: ptr.To(resource.MustParse("0"))},
				}}
			})
		},
		"amounts beyond all": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			devices(s, "dra.cpu", func(_ int, d *resourceapi.Device) {
				d.Capacity["dra.cpu/cpu"] = resourceapi.DeviceCapacity{Value: resource.MustParse("9223372036854775807")}
				d.Capacity["dra.cpu/tiny"] = resourceapi.DeviceCapacity{Value: resource.MustParse("1n")}
			})
		},
		"a holder of what is not there": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			s.Claims = append(s.Claims, Holding("ghost", snapshot.DeviceID{Driver: "a", Pool: "b", Device: "c"}))
		},
		"slices of no pool": func(s *snapshot.Objects, _ *resourceapi.ResourceClaim) {
			s.Slices = append(s.Slices, &resourceapi.ResourceSlice{}, &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{AllNodes: ptr.To(true)}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := A3(t, 1)
			claim := Claim("claim", []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")}, gpus(1), nics(1), cpus("4"))
			seed(&s, claim)
			r, out := text(t, s, explain.OfClaim(claim))
			if r.Verdict == "" || !strings.Contains(out, "ResourceClaim ") {
				t.Errorf("%q:\n%s", r.Verdict, out)
			}
		})
	}
}

// Thousands of nodes come to a few lines.
func TestManyNodes(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 600
	}
	s := snapshot.Objects{Source: "test", Minor: allocation.NewestMinor, Gates: allocation.DefaultGates(allocation.NewestMinor), Classes: map[string]*resourceapi.DeviceClass{"gpu": Class("gpu", `device.driver == "gpu"`)}}
	for i := range n {
		node := fmt.Sprintf("node-%04d", i)
		s.Slices = append(s.Slices, Slice("gpu", node, Device("a", Attributes{pcieRoot: Text("pci0000:00")}), Device("b", Attributes{pcieRoot: Text("pci0000:01")})))
		if i%2 == 0 {
			s.Claims = append(s.Claims, Holding(node, snapshot.DeviceID{Driver: "gpu", Pool: node, Device: "a"}))
		}
	}
	claim := Claim("claim", []resourceapi.DeviceConstraint{Match(pcieRoot)}, Request("r", "gpu", 2))
	r, out := text(t, s, explain.OfClaim(claim))
	if r.Nodes != n || r.Verdict != explain.FitsNot || strings.Count(out, "\n") > 30 || len(r.Groups) != 2 {
		t.Errorf("%d nodes, %s, %d groups:\n%s", r.Nodes, r.Verdict, len(r.Groups), out)
	}
}
