// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// offer is a NIC that is shared, or a link of a HostPolicy that offers some.
type offer struct {
	// from is who says so.
	from  string
	share model.Share
	// mtu is the NIC's; 0 where it is not known.
	mtu int
}

// policyOffers are those of a HostPolicy.
func policyOffers(p *hosts.HostPolicy) []offer {
	var all []offer
	for i := range p.Spec.Links {
		link := &p.Spec.Links[i]
		if link.Share == nil {
			continue
		}
		o := offer{from: "HostPolicy " + p.Name, share: model.Share{Type: link.Share.Type, Mode: link.Share.Mode, Slots: int64(link.Share.Slots), AlsoExclusive: link.Share.AlsoExclusive}}
		if q, err := resource.ParseQuantity(link.Share.Bandwidth); err == nil {
			o.share.Bandwidth = q.Value()
		}
		if ids := link.Share.VLANIDs; ids != nil {
			o.share.FirstVLAN, o.share.LastVLAN = int(ids.First), int(ids.Last)
		}
		if link.MTU != nil {
			o.mtu = int(*link.MTU)
		}
		all = append(all, o)
	}
	return all
}

// offersOf are those of a slice.
func offersOf(s *resourceapi.ResourceSlice) []offer {
	if s.Spec.Driver != slicecodec.DriverNet {
		return nil
	}
	node, err := slicecodec.Decode([]resourceapi.ResourceSlice{*s})
	if node == nil || err != nil {
		return nil // what cannot be read offers nothing that is known
	}
	var all []offer
	for i := range node.Machine.NICs {
		n := &node.Machine.NICs[i]
		if n.Share == nil {
			continue
		}
		o := offer{from: "ResourceSlice " + s.Name, share: *n.Share}
		if n.Interface != nil && n.Interface.MTU != nil {
			o.mtu = *n.Interface.MTU
		}
		all = append(all, o)
	}
	return all
}

// takesShare says whether a request is for a share of a NIC, and not for a whole one.
func takesShare(r request, c *v1alpha1.NetworkConfig) bool {
	i := &c.Interface
	if r.class == slicecodec.ClassShared || i.VLANID != nil || i.Mode != nil || i.Type != nil && *i.Type != v1alpha1.TypePassthrough {
		return true
	}
	for _, name := range []resourceapi.QualifiedName{slicecodec.CapacitySlots, slicecodec.CapacityBandwidth} {
		if _, asked := asks(r, name); asked {
			return true
		}
	}
	return false
}

func asks(r request, name resourceapi.QualifiedName) (int64, bool) {
	if r.capacity == nil {
		return 0, false
	}
	q, asked := r.capacity.Requests[name]
	return q.Value(), asked
}

// ofOffers warns of what none of the NICs can give that files say are shared: the cluster
// may have others.
func (l linter) ofOffers(s schema, r request, c *v1alpha1.NetworkConfig) {
	if len(l.in.offers) == 0 || !takesShare(r, c) {
		return
	}
	left, i := l.in.offers, &c.Interface
	at := func(name string) *field.Path { return l.layerOf(s, "interface."+name, r).Child("interface", name) }
	// narrow keeps those that can give it, and says what all of them give where none can.
	narrow := func(path *field.Path, value any, gives func(offer) string, can func(offer) bool) {
		able := slices.DeleteFunc(slices.Clone(left), func(o offer) bool { return !can(o) })
		if len(left) > 0 && len(able) == 0 {
			var words []string
			for _, o := range left {
				words = append(words, gives(o)+" by "+o.from)
			}
			slices.Sort(words)
			l.warning(field.Invalid(path, value, "no NIC that the files share can give it: "+strings.Join(slices.Compact(words), ", ")))
		}
		left = able
	}
	kind := func(o offer) string { return o.share.Type }
	if i.Type != nil && *i.Type != v1alpha1.TypePassthrough { // the default
		narrow(at("type"), *i.Type, kind, func(o offer) bool { return o.share.Type == *i.Type })
	}
	if i.VLANID != nil {
		narrow(at("vlanID"), *i.VLANID, func(o offer) string {
			if o.share.Type != model.ShareVLAN {
				return o.share.Type
			}
			return fmt.Sprintf("%d-%d", o.share.FirstVLAN, o.share.LastVLAN)
		}, func(o offer) bool { return o.share.FirstVLAN <= int(*i.VLANID) && int(*i.VLANID) <= o.share.LastVLAN })
	}
	if i.Mode != nil {
		narrow(at("mode"), *i.Mode, func(o offer) string { return strings.TrimSpace(o.share.Type + " " + o.share.Mode) }, func(o offer) bool { return hasMode(o.share, *i.Mode) })
	}
	if i.MTU != nil {
		narrow(at("mtu"), *i.MTU, func(o offer) string { return fmt.Sprintf("%d at most", o.mtu) }, func(o offer) bool { return o.mtu == 0 || int(*i.MTU) <= o.mtu })
	}
	capacity := func(name resourceapi.QualifiedName, has func(offer) int64) {
		if n, asked := asks(r, name); asked {
			narrow(r.path.Child("capacity", "requests").Key(string(name)), n, func(o offer) string { return fmt.Sprint(has(o)) }, func(o offer) bool { return n <= has(o) })
		}
	}
	capacity(slicecodec.CapacitySlots, func(o offer) int64 { return o.share.Slots })
	capacity(slicecodec.CapacityBandwidth, func(o offer) int64 { return o.share.Bandwidth })
}

// hasMode says whether a NIC gives links of a mode: the claim chooses that of a macvlan, the
// NIC that of an ipvlan, and a vlan has none.
func hasMode(s model.Share, mode string) bool {
	switch s.Type {
	case model.ShareMacvlan:
		return mode == "bridge" || mode == "private" || mode == "vepa"
	case model.ShareIPvlan:
		return mode == s.Mode || s.Mode == "" && mode == "l2"
	}
	return false
}

// interfaceNames refuses two claims of one pod that give interfaces one name. Of two NICs of
// one claim the driver says so itself.
func (l linter) interfaceNames(at *field.Path, claim string, target *object, links map[string]string) {
	if target == nil {
		return
	}
	for _, r := range target.requests() {
		if r.several || r.admin || resourceclaim.IsSubRequestRef(r.name) || l.in.driverOf(r.class) != slicecodec.DriverNet {
			continue
		}
		layers, err := schemas[0].decodeLayers(l.in.allocated(target, r, slicecodec.DriverNet).Configs)
		if err != nil {
			continue // said where they stand
		}
		merged, _ := schemas[0].effective(layers)
		nic, ok := merged.(*v1alpha1.NetworkConfig)
		if !ok || nic.Interface.Name == nil {
			continue
		}
		name := *nic.Interface.Name
		if other, taken := links[name]; taken && other != claim {
			l.error(&field.Error{Type: field.ErrorTypeDuplicate, Field: at.String(), BadValue: name,
				Detail: fmt.Sprintf("claims %s and %s both call an interface of the pod so: want another interface.name in one of them", other, claim)})
			continue
		}
		links[name] = claim
	}
}
