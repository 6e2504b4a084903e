// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicies

import (
	"cmp"
	"fmt"
	"slices"

	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/printable"
)

// Bounds of the API's form (api/hosts).
const (
	maxPolicies = 64
	maxOpen     = 64
	maxLink     = 128
	maxField    = 256
	maxValue    = 128
	maxReason   = 1024
)

// chosen are the policies of a node with such labels, and what is wrong with those that
// cannot be followed, which the API server's validation lets nobody create.
func chosen(all []*hosts.HostPolicy, node labels.Set) (policies []hostpolicy.Policy, wrong []hosts.PolicyResult) {
	for _, policy := range all {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.NodeSelector)
		if err == nil && !selector.Matches(node) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("spec.nodeSelector: %w", err)
		}
		converted := fromAPI(policy)
		if err == nil {
			err = converted.Validate()
		}
		if err != nil {
			wrong = append(wrong, hosts.PolicyResult{
				Name: policy.Name, Generation: policy.Generation,
				Open: []hosts.FieldResult{{State: string(hostpolicy.Refused), Reason: text(maxReason, err.Error())}},
			})
			continue
		}
		policies = append(policies, converted)
	}
	return policies, wrong
}

func fromAPI(policy *hosts.HostPolicy) hostpolicy.Policy {
	p := hostpolicy.Policy{Name: policy.Name, Generation: policy.Generation, DryRun: policy.Spec.DryRun}
	p.RDMANamespaces = rdma.Mode(policy.Spec.RDMANamespaces)
	for _, m := range policy.Spec.Modules {
		p.Modules = append(p.Modules, string(m))
	}
	p.Sysctls = texts(policy.Spec.Sysctls)
	for i := range policy.Spec.Links {
		l := &policy.Spec.Links[i]
		link := hostpolicy.LinkPolicy{
			PCIAddress: l.PCIAddress, RDMADevice: l.RDMADevice, Interface: l.Interface, Driver: l.Driver, Role: hostpolicy.Role(l.Role),
			Up: l.Up, AltName: l.AltName, Sysctls: texts(l.Sysctls), MTU: number(l.MTU), MaxReadRequest: number(l.MaxReadRequest), RelaxedOrdering: l.RelaxedOrdering, NumVFs: number(l.NumVFs),
			Share: shareOf(l.Share),
		}
		if l.Selector != nil {
			link.CEL = l.Selector.CEL
		}
		p.Links = append(p.Links, link)
	}
	return p
}

func shareOf(offer *hosts.LinkShare) *model.Share {
	if offer == nil {
		return nil
	}
	s := &model.Share{Type: offer.Type, Mode: offer.Mode, Flag: offer.Flag, Slots: int64(offer.Slots), AlsoExclusive: offer.AlsoExclusive}
	if offer.IPAM != nil {
		s.Pool = offer.IPAM.Pool
	}
	if offer.VLANIDs != nil {
		s.FirstVLAN, s.LastVLAN = int(offer.VLANIDs.First), int(offer.VLANIDs.Last)
	}
	if q, err := quantity.ParseQuantity(offer.Bandwidth); err == nil { // the API server refused others
		s.Bandwidth = q.Value()
	}
	return s
}

func texts[T ~string](values map[string]T) map[string]string {
	var all map[string]string
	for key, value := range values {
		if all == nil {
			all = map[string]string{}
		}
		all[key] = string(value)
	}
	return all
}

func number(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// summed are the results of each policy, those with the same name together.
func summed(policies []hostpolicy.Policy, results []hostpolicy.Result, wrong []hosts.PolicyResult) []hosts.PolicyResult {
	all := slices.Clone(wrong)
	for _, p := range policies {
		all = append(all, resultOf(p.Name, p.Generation, results))
	}
	// What an earlier policy set and could not be put back has no name.
	if left := resultOf("", 0, results); len(left.Open) > 0 {
		all = append(all, left)
	}
	slices.SortFunc(all, func(a, b hosts.PolicyResult) int { return cmp.Compare(a.Name, b.Name) })
	return all[:min(len(all), maxPolicies)]
}

func resultOf(name string, generation int64, results []hostpolicy.Result) hosts.PolicyResult {
	sum := hosts.PolicyResult{Name: name, Generation: generation}
	for _, r := range results {
		switch {
		case r.Policy != name:
		case r.State == hostpolicy.Applied:
			sum.Applied++
		case len(sum.Open) < maxOpen:
			sum.Open = append(sum.Open, hosts.FieldResult{
				Link: text(maxLink, r.Link), Field: text(maxField, r.Field), Have: text(maxValue, r.Before), Want: text(maxValue, r.Want),
				State: string(r.State), Reason: text(maxReason, r.Reason),
			})
		}
	}
	return sum
}

// text is printable, and short enough for the API.
func text(most int, s string) string { return kube.BoundedText(most, printable.Text(s)) }
