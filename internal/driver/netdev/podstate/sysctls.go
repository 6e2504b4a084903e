// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// setSysctls sorts the sysctls of a configuration into the interface's own and
// those of the whole namespace. One that another field sets too must agree with it.
func (s *State) setSysctls(c *v1alpha1.NetworkConfig) error {
	set := func(key string, v *int32) {
		if v != nil {
			s.setOwnSysctl(key, strconv.Itoa(int(*v)))
		}
	}
	set("ipv4/conf/arp_ignore", c.Interface.ARPIgnore)
	set("ipv4/conf/arp_announce", c.Interface.ARPAnnounce)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Sysctls)) {
		if err := s.addSysctl(name, c.Sysctls[name]); err != nil {
			errs = append(errs, fmt.Errorf("sysctls[%s]: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// forwardingOfAll is the other name of net.ipv4.ip_forward (net/ipv4/devinet.c,
// devinet_init_net): a pod has one of them.
const forwardingOfAll = "net.ipv4.conf.all.forwarding"

func (s *State) addSysctl(name, value string) error {
	ifname, key, ofInterface := v1alpha1.InterfaceOfSysctl(name)
	if !ofInterface || ifname == "all" || ifname == "default" {
		if name == "net.ipv4.ip_forward" {
			name = forwardingOfAll
		}
		if have, there := s.PodSysctls[name]; there && have != value {
			return fmt.Errorf("%q: %s is %q: want the same", value, name, have)
		}
		if s.PodSysctls == nil {
			s.PodSysctls = map[string]string{}
		}
		s.PodSysctls[name] = value
		return nil
	}
	if ifname != s.Name {
		return fmt.Errorf("is of interface %s: want the claim's own, %s, or all or default of conf", ifname, s.Name)
	}
	if have, there := s.Sysctls[key]; there && have != value {
		return fmt.Errorf("%q: another field of interface says %q: want one of them", value, have)
	}
	if s.Forwarding != nil && (key == "ipv4/conf/forwarding" || key == "ipv6/conf/forwarding") {
		return errors.New("interface.forwarding says it: want one of them")
	}
	s.setOwnSysctl(key, value)
	return nil
}

func (s *State) setOwnSysctl(key, value string) {
	if s.Sysctls == nil {
		s.Sysctls = map[string]string{}
	}
	s.Sysctls[key] = value
}

// PrepareNamespace sets the sysctls of the pod's namespace. It comes before the
// interface, which takes its own from conf.default when it arrives, and so only
// once: what a pod changes later is the pod's. Nothing takes them back: they go
// with the namespace, and one that outlives the claim may have another claim that
// says the same.
func (s *State) PrepareNamespace(p *Pod) error {
	for _, name := range slices.Sorted(maps.Keys(s.PodSysctls)) {
		if err := p.Sysctl.WriteNamespace(name, s.PodSysctls[name]); err != nil {
			return fmt.Errorf("sysctls[%s]: %w", name, err)
		}
	}
	return nil
}
