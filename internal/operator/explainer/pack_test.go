// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/machine"
)

// What is packed comes out as it went in, of every shipped machine, and is found by
// its name.
func TestPack(t *testing.T) {
	for _, name := range machine.Names() {
		for _, slice := range explaintest.Machine(t, name, "node") {
			want := slice.DeepCopy()
			kept, err := pack(slice)
			if err != nil {
				t.Fatal(err)
			}
			p, ok := kept.(*packed)
			if !ok {
				if len(want.Spec.Devices) > 0 {
					t.Errorf("%s: %s is not packed", name, slice.Name)
				}
				continue
			}
			if accessor, err := meta.Accessor(p); err != nil || accessor.GetName() != want.Name {
				t.Errorf("%s: %v, %v: no cache would find it", name, accessor, err)
			}
			whole, err := p.unpack()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, whole); diff != "" {
				t.Errorf("%s (-is +unpacked):\n%s", name, diff)
			}
			if len(p.Spec.Devices) != 0 {
				t.Errorf("%s: %s has its devices beside", name, slice.Name)
			}
		}
	}
}

// Devices that several nodes can reach stay as they are, and what does not unpack
// has no answer.
func TestNotPacked(t *testing.T) {
	shared := explaintest.Slice("fabric", "", explaintest.Device("port", nil))
	shared.Spec.NodeName, shared.Spec.AllNodes = nil, ptr.To(true)
	if kept, err := pack(shared); err != nil || kept != any(shared) {
		t.Errorf("%v, %v", kept, err)
	}
	c := newFixture(t, pair("four", 4), waiting("trainer", "four"))
	for _, p := range kept[*packed](c.objects.slices) {
		p.devices = p.devices[:len(p.devices)/2]
	}
	if told := c.after(settle); told != "" {
		t.Errorf("devices cannot be read, and it hears %q", told)
	}
	var broken *packed
	for _, p := range kept[*packed](c.objects.slices) {
		broken = p
	}
	if whole, err := broken.unpack(); err == nil || whole != nil {
		t.Errorf("%v, %v: want that it is broken", whole, err)
	}
}

// Nodes whose slices are packed are judged as nodes whose are not: random clusters
// of every oddity, taint rules included.
func TestPackedIsTheSame(t *testing.T) {
	told := 0
	for seed := range uint64(150) {
		c := explaintest.Random(seed)
		c.Snapshot.TaintRules = []*resourceapi.DeviceTaintRule{{Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Device: ptr.To("d0")},
			Taint:          resourceapi.DeviceTaint{Key: "rule", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}}
		r := &pass{packed: map[*resourceapi.ResourceSlice]*packed{}}
		small := c.Snapshot
		small.Slices, small.Unpack = nil, r.unpack
		for _, slice := range c.Snapshot.Slices {
			kept, err := pack(slice)
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := kept.(*packed); ok {
				r.packed[&p.ResourceSlice] = p
				slice = &p.ResourceSlice
			}
			small.Slices = append(small.Slices, slice)
		}
		s := explain.OfClaim(c.Claims[0])
		s.Claims = c.Claims
		var texts [2]strings.Builder
		for i, objects := range []snapshot.Objects{c.Snapshot, small} {
			report, err := explain.Explain(t.Context(), snapshot.New(objects), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Text(&texts[i]); err != nil {
				t.Fatal(err)
			}
			if report.Verdict == explain.FitsNot {
				told++
			}
		}
		if diff := cmp.Diff(texts[0].String(), texts[1].String()); diff != "" {
			t.Fatalf("seed %d (-whole +packed):\n%s", seed, diff)
		}
	}
	if told < 40 {
		t.Errorf("%d cases do not fit, too few to say anything", told)
	}
}
