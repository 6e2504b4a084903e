// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// share sets what a NIC that is shared has beside its other attributes (KEP-5075).
func (b *builder) share(s *model.Share) {
	if s == nil {
		return
	}
	b.flag(AttrShared, true)
	b.text(AttrShareType, &s.Type)
	b.text(attrShareOptions, ptr.To(shareOptions(s)))
	b.device.AllowMultipleAllocations = ptr.To(true)
	b.device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{CapacitySlots: countable(s.Slots, 1)}
	if s.Bandwidth > 0 {
		b.device.Capacity[CapacityBandwidth] = bandwidth(s.Bandwidth)
	}
}

// counterNIC is the one counter of a NIC that is offered in shares and whole, of which there
// is one. A device that is shared consumes it with its first share, and its twin whole.
const counterNIC = "nic"

func (b *builder) consumeNIC(set string) {
	one := map[string]resourceapi.Counter{counterNIC: {Value: *resource.NewQuantity(1, resource.DecimalSI)}}
	b.device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: one}}
}

// hasTwin says whether a published device of ours consumes the counter of a NIC, and base is
// the name of the NIC that it is then the whole of, or the shares.
func hasTwin(driver string, d resourceapi.Device) (base string, ok bool) {
	if driver != DriverNet || len(d.ConsumesCounters) != 1 {
		return d.Name, false
	}
	base = d.ConsumesCounters[0].CounterSet
	return base, d.Name == base || d.Name == base+twinSuffix
}

// shareOptions are those of the kind of link; empty for none.
func shareOptions(s *model.Share) string {
	switch s.Type {
	case model.ShareIPvlan:
		return strings.TrimSpace(s.Mode + " " + s.Flag)
	case model.ShareVLAN:
		return fmt.Sprintf("%d-%d", s.FirstVLAN, s.LastVLAN)
	}
	return ""
}

// readShareOptions reads them back.
func readShareOptions(s *model.Share, text string) error {
	if s.Type == model.ShareVLAN {
		if _, err := fmt.Sscanf(text, "%d-%d", &s.FirstVLAN, &s.LastVLAN); err != nil {
			return fmt.Errorf("%q: want a range of VLAN tags, such as 100-199", text)
		}
		return nil
	}
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "l") {
			s.Mode = word
		} else {
			s.Flag = word
		}
	}
	return nil
}

func bandwidth(bits int64) resourceapi.DeviceCapacity {
	whole, none := resource.NewQuantity(bits, resource.DecimalSI), resource.NewQuantity(0, resource.DecimalSI)
	return resourceapi.DeviceCapacity{Value: *whole, RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: none, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: none, Max: whole},
	}}
}

// share reads it back; nil of a NIC that is not shared.
func (r *reader) share(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) *model.Share {
	if _, told := r.get(AttrShared); !told || !r.flag(AttrShared) {
		return nil
	}
	s := &model.Share{Type: ptr.Deref(r.text(AttrShareType), "")}
	if options := r.text(attrShareOptions); options != nil {
		if err := readShareOptions(s, *options); err != nil {
			r.fail(attrShareOptions, err)
		}
	}
	slots, bandwidth := capacity[CapacitySlots].Value, capacity[CapacityBandwidth].Value
	s.Slots, s.Bandwidth = slots.Value(), bandwidth.Value()
	if s.Slots < 0 || s.Bandwidth < 0 {
		r.err = errors.Join(r.err, errors.New("capacity: slots or bandwidth is negative"))
	}
	return s
}
