// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
)

// twinned is a NIC that is offered in shares and whole.
func twinned(bus uint8) model.NIC {
	return model.NIC{
		PCI: &model.PCIAddress{Bus: bus}, Interface: &model.Interface{Name: fmt.Sprint("eth", bus)}, RDMA: &model.RDMADevice{Name: "mlx5_0"},
		Share: &model.Share{Type: model.ShareMacvlan, Slots: 4, AlsoExclusive: true},
	}
}

// A NIC that is offered both ways is two devices that consume one counter, which is in a
// slice without devices, and reads as what it is.
func TestTwins(t *testing.T) {
	m := &model.Machine{}
	for bus := range uint8(10) {
		m.NICs = append(m.NICs, twinned(bus))
	}
	devices := Encode(m, DriverNet, CPUOptions{})
	if len(devices) != 20 {
		t.Fatalf("%d devices, want two of each NIC", len(devices))
	}
	shared, whole := devices[0], devices[1]
	if shared.Name != "pci-0000-00-00-0" || whole.Name != "pci-0000-00-00-0-whole" {
		t.Errorf("devices %s and %s", shared.Name, whole.Name)
	}
	if _, told := whole.Attributes[AttrShared]; told || whole.AllowMultipleAllocations != nil || len(whole.Capacity) > 0 {
		t.Errorf("the whole: %+v", whole)
	}
	if shared.AllowMultipleAllocations == nil || !*shared.AllowMultipleAllocations {
		t.Errorf("the shares: %+v", shared)
	}
	if diff := cmp.Diff(shared.ConsumesCounters, whole.ConsumesCounters); diff != "" || len(whole.ConsumesCounters) != 1 {
		t.Errorf("they consume other counters:\n%s", diff)
	}
	sets := SharedCounters(devices)
	if len(sets) != 2 || len(sets[0]) != resourceapi.ResourceSliceMaxCounterSets || len(sets[1]) != 2 {
		t.Errorf("counter sets %v, want one for each NIC, 8 in a slice", sets)
	}
	if got := sets[0][0].Counters[counterNIC].Value; sets[0][0].Name != shared.Name || got.Value() != 1 {
		t.Errorf("counter set %+v, want 1 of %s", sets[0][0], shared.Name)
	}
	for name, want := range map[string]*model.NIC{shared.Name: &m.NICs[0], whole.Name: &m.NICs[0], "pci-0000-00-00-0-p1": nil, "none-whole": nil} {
		if got := FindNIC(m, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}

	node, err := Decode([]resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: DriverNet, Devices: devices[:2]}}})
	if err != nil || len(node.Machine.NICs) != 2 {
		t.Fatal(node, err)
	}
	for i, name := range []string{shared.Name, whole.Name} {
		n := node.Machine.NICs[i]
		if n.Published.Name != name || n.Port != nil || (n.Share != nil) != (i == 0) {
			t.Errorf("%s reads as %+v", name, n)
		}
	}
	if s := node.Machine.NICs[0].Share; !s.AlsoExclusive || s.Slots != 4 {
		t.Errorf("its share reads as %+v", s)
	}

	faults := map[string][]model.Fault{shared.Name: {{Kind: model.FaultCarrier}}}
	for i, d := range Taint(devices[:4], faults, resourceapi.DeviceTaintEffectNoSchedule) {
		if (len(d.Taints) > 0) != (i < 2) {
			t.Errorf("%s has taints %v", d.Name, d.Taints)
		}
	}
}

func TestNICsWithoutTwin(t *testing.T) {
	withheld, plain := twinned(1), twinned(2)
	withheld.Withhold("carries the default route")
	withheld.Share = twinned(1).Share // what keeps a NIC on the host does not keep it from being shared
	plain.Share.AlsoExclusive = false
	for _, n := range []model.NIC{withheld, plain} {
		devices := Encode(&model.Machine{NICs: []model.NIC{n}}, DriverNet, CPUOptions{})
		if len(devices) != 1 || len(devices[0].ConsumesCounters) > 0 || len(SharedCounters(devices)) > 0 {
			t.Errorf("%s: %+v, want it in shares alone", n, devices)
		}
	}
}

// In exclusive mode the holder of a share sees no RDMA device, and who has the NIC whole does.
func TestRDMAOfTwins(t *testing.T) {
	n := twinned(1)
	n.Share.WithoutRDMA = true
	devices := Encode(&model.Machine{NICs: []model.NIC{n}}, DriverNet, CPUOptions{})
	for i, want := range []bool{false, true} {
		if got := devices[i].Attributes[AttrRDMA].BoolValue; *got != want {
			t.Errorf("%s: rdma %t, want %t", devices[i].Name, *got, want)
		}
	}
	if n.RDMA == nil {
		t.Error("the machine has changed")
	}
}
