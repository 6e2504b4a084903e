// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package policy lists which parameters of a claim the shipped policy
// plumbline-claim-parameters guards. The policy is CEL, in the chart; a test holds
// the two to each other.
package policy

import (
	"fmt"
	"net/netip"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// Policy is the name of the policy.
const Policy = "plumbline-claim-parameters"

// allow is the label of a namespace that allows a setting, less its name.
const allow = "allow.plumbline.dev/"

// Setting is one that the policy guards.
type Setting struct {
	// Name is that of claimPolicy.guarded and of the label.
	Name string
	// What a claim does that uses it, as in "claims may not ...".
	What string
	// used is the field by which a configuration uses it, or "".
	used func(*v1alpha1.NetworkConfig) string
}

// Settings are all that the policy can guard, and does by default.
var Settings = []Setting{
	{"addresses", "set addresses", func(c *v1alpha1.NetworkConfig) string {
		return where("interface.addresses", len(c.Interface.Addresses) > 0)
	}},
	{"hardwareAddr", "set a MAC address", func(c *v1alpha1.NetworkConfig) string {
		return where("interface.hardwareAddr", c.Interface.HardwareAddr != nil)
	}},
	{"defaultRoutes", "set routes to everywhere (a prefix shorter than /8, or one that cannot be read)", everywhere},
	{"rules", "set routing rules", func(c *v1alpha1.NetworkConfig) string { return where("rules", len(c.Rules) > 0) }},
	{"disableEbpfPrograms", "take eBPF programs off an interface", func(c *v1alpha1.NetworkConfig) string {
		return where("interface.disableEbpfPrograms", isTrue(c.Interface.DisableEBPFPrograms))
	}},
	{"privateFlags", "set private flags of a NIC's driver", func(c *v1alpha1.NetworkConfig) string {
		return where("ethtool.privateFlags", c.Ethtool != nil && len(c.Ethtool.PrivateFlags) > 0)
	}},
	{"sysctls", "set sysctls of the pod's network namespace", func(c *v1alpha1.NetworkConfig) string {
		return where("sysctls", len(c.Sysctls) > 0)
	}},
	{"vf", "set a virtual function through its physical one", func(c *v1alpha1.NetworkConfig) string {
		return where("interface.vf", c.Interface.VF != nil && *c.Interface.VF != v1alpha1.VFConfig{})
	}},
	{"umad", "ask for devices that reconfigure the fabric", func(c *v1alpha1.NetworkConfig) string {
		switch {
		case c.RDMA == nil:
			return ""
		case isTrue(c.RDMA.UMAD):
			return "rdma.umad"
		}
		return where("rdma.issm", isTrue(c.RDMA.ISSM))
	}},
}

// Use is a field of one configuration that the policy is about.
type Use struct {
	Setting Setting
	// Field is its path in the parameters.
	Field string
}

// Uses are those of one configuration of a claim or template, by itself as the
// policy looks at it: those of a DeviceClass it does not look at.
func Uses(c *v1alpha1.NetworkConfig) []Use {
	var uses []Use
	for _, s := range Settings {
		if path := s.used(c); path != "" {
			uses = append(uses, Use{s, path})
		}
	}
	return uses
}

// Note says what the policy does about it. Namespace may be "".
func (u Use) Note(namespace string) string {
	if namespace == "" {
		namespace = "NAMESPACE"
	}
	return fmt.Sprintf("the shipped policy %s warns of claims that %s (setting %s), and refuses them where an administrator has it deny; "+
		"kubectl label namespace %s %s%s=true allows it", Policy, u.Setting.What, u.Setting.Name, namespace, allow, u.Setting.Name)
}

func where(path string, used bool) string {
	if used {
		return path
	}
	return ""
}

func isTrue(b *bool) bool { return b != nil && *b }

// everywhere finds a prefix that is not of one network.
func everywhere(c *v1alpha1.NetworkConfig) string {
	const least = 8
	wide := func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err != nil || p.Addr().Is4In6() || p.Bits() < least
	}
	for i, r := range c.Routes {
		if r.Destination == nil || wide(*r.Destination) {
			return fmt.Sprintf("routes[%d].destination", i)
		}
	}
	for i, a := range c.Interface.Addresses {
		if wide(a) {
			return fmt.Sprintf("interface.addresses[%d]", i)
		}
	}
	return ""
}
