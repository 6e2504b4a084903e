// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"errors"
	"slices"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Undo removes what Configure and Finish made in the namespace beside the interface,
// which has left: rules, and a VRF that has no interface any more. Repeating it
// changes nothing. Where a pod has made so many rules or links that the list is over
// rtnl.PodEntries, they stay: they end with the pod. So do sysctls of the namespace
// (PrepareNamespace).
func Undo(p *Pod, states []*State) error {
	if !slices.ContainsFunc(states, func(s *State) bool { return s.VRF != nil || len(s.Rules)+len(s.Own.Rules) > 0 }) {
		return nil
	}
	var errs []error
	for _, err := range []error{deleteRules(p, states), deleteVRFs(p, states)} {
		if !errors.Is(err, rtnl.ErrTooMany) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func deleteRules(p *Pod, states []*State) error {
	var ours []rtnl.RuleConfig
	var saved []rtnl.Saved
	for _, s := range states {
		ours = append(ours, s.Own.Rules...)
		saved = append(saved, s.Rules...)
	}
	if len(ours)+len(saved) == 0 {
		return nil
	}
	rules, err := p.Rules()
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rules {
		own := slices.ContainsFunc(ours, func(c rtnl.RuleConfig) bool { return c.Matches(r) })
		if !r.Kernel && (own || slices.ContainsFunc(saved, r.Equal)) {
			errs = append(errs, p.DeleteRule(r.Saved))
		}
	}
	return errors.Join(errs...)
}

func deleteVRFs(p *Pod, states []*State) error {
	if !slices.ContainsFunc(states, func(s *State) bool { return s.VRF != nil }) {
		return nil
	}
	named := func(l *rtnl.Link) bool {
		return slices.ContainsFunc(states, func(s *State) bool { return s.VRF != nil && s.VRF.Name == l.Name })
	}
	links, err := p.LinksWhere(func(l *rtnl.Link) bool { return l.Master != nil || named(l) })
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range links {
		ours := slices.ContainsFunc(states, func(s *State) bool {
			return s.VRF != nil && s.VRF.Name == l.Name && l.VRFTable != nil && *l.VRFTable == s.VRF.Table
		})
		used := slices.ContainsFunc(links, func(o rtnl.Link) bool { return o.Master != nil && *o.Master == l.Index })
		if ours && !used {
			errs = append(errs, p.DeleteLink(l.Index))
		}
	}
	return errors.Join(errs...)
}
