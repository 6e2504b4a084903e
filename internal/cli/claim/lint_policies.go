// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// hostPolicy checks a HostPolicy by the agent's own code, and that no link is shared in two
// ways by it and those before it.
func (l linter) hostPolicy() {
	policy := l.o.policy
	l.labels(policy.Spec.NodeSelector)
	of := func(links []hosts.LinkPolicy) *hosts.HostPolicy {
		p := &hosts.HostPolicy{Spec: policy.Spec}
		p.Spec.Links = links
		if len(links) > 0 { // the host's own fields are another matter
			p.Spec.Modules, p.Spec.Sysctls, p.Spec.RDMANamespaces = nil, nil, ""
		}
		return p
	}
	said := func(at *field.Path, prefix string, err error) {
		if err != nil {
			l.sentences(at, strings.ReplaceAll(err.Error(), prefix, ""))
		}
	}
	said(field.NewPath("spec"), `policy "": `, policyMistakes(of(nil)))
	for i := range policy.Spec.Links {
		link, at := &policy.Spec.Links[i], field.NewPath("spec", "links").Index(i)
		checked := *link
		if link.Selector != nil && !l.linkSelector(at.Child("selector", "cel"), link.Selector.CEL) {
			checked.Selector = &hosts.LinkSelector{CEL: "true"} // what is wrong with it is told
		}
		said(at, `policy "": links[0]: `, policyMistakes(of([]hosts.LinkPolicy{checked})))
		if link.Share == nil {
			continue
		}
		if q, err := resource.ParseQuantity(link.Share.Bandwidth); link.Share.Bandwidth != "" && (err != nil || q.Sign() <= 0) {
			l.error(field.Invalid(at.Child("share", "bandwidth"), link.Share.Bandwidth, "want bits per second, such as 100G"))
		}
		if ipam := link.Share.IPAM; ipam != nil {
			l.poolIsKnown(at.Child("share", "ipam", "pool"), ipam.Pool)
		}
		l.sharedOtherwise(at.Child("share"), link)
	}
}

// sharedOtherwise refuses an offer of a link that an entry before it offers in another way.
func (l linter) sharedOtherwise(at *field.Path, link *hosts.LinkPolicy) {
	for _, o := range l.in.objects {
		if o.policy == nil {
			continue
		}
		for k := range o.policy.Spec.Links {
			other := &o.policy.Spec.Links[k]
			if other == link {
				return
			}
			if other.Share == nil || finderOf(other) != finderOf(link) || reflect.DeepEqual(other.Share, link.Share) {
				continue
			}
			e := field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("%s is shared in another way by links[%d] of HostPolicy %s, as %s: a link is shared in one way",
				finderOf(link), k, o.name, other.Share.Type))
			if sameNodes(l.o.policy, o.policy) {
				l.error(e)
				continue
			}
			e.Detail += " on each node, and a node may be chosen by both"
			l.warning(e)
		}
	}
}

// finderOf is by what a policy finds a link, in words.
func finderOf(link *hosts.LinkPolicy) string {
	var words []string
	expression := ""
	if link.Selector != nil {
		expression = link.Selector.CEL
	}
	for _, f := range []struct{ name, value string }{
		{"pciAddress", link.PCIAddress}, {"rdmaDevice", link.RDMADevice}, {"interface", link.Interface}, {"driver", link.Driver}, {"role", link.Role}, {"selector", expression},
	} {
		if f.value != "" {
			words = append(words, f.name+" "+f.value)
		}
	}
	return strings.Join(words, ", ")
}

// sameNodes says whether there are nodes, if any, that two policies both choose.
func sameNodes(a, b *hosts.HostPolicy) bool {
	all := func(p *hosts.HostPolicy) bool {
		return len(p.Spec.NodeSelector.MatchLabels)+len(p.Spec.NodeSelector.MatchExpressions) == 0
	}
	return all(a) || all(b) || reflect.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector)
}
