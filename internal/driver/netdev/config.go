// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// profileSource is the layer that a named profile was resolved to.
const profileSource = "profile"

// configOf merges and checks the layers of parameters of one device.
func configOf(layers []driver.Config) (*v1alpha1.NetworkConfig, error) {
	merged, err := merge(layers)
	if err != nil {
		return nil, err
	}
	resolved := slices.ContainsFunc(layers, func(l driver.Config) bool { return l.Source == profileSource })
	if merged.Profile != nil && !resolved {
		return nil, fmt.Errorf("profile: %q: nobody resolved it: start the agent with a profile provider", *merged.Profile)
	}
	return merged, nil
}

func merge(layers []driver.Config) (*v1alpha1.NetworkConfig, error) {
	decoded, err := driver.DecodeLayers(layers, v1alpha1.DecodeNetworkConfig)
	if err != nil {
		return nil, err
	}
	merged := v1alpha1.MergeNetworkConfigs(decoded...)
	mistakes := merged.Mistakes()
	for i, l := range layers {
		if l.Source == driver.SourceClaim {
			mistakes = append(mistakes, decoded[i].MistakesOfClaim()...)
		}
	}
	if err := mistakes.ToAggregate(); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return merged, nil
}

// refuseOfParent refuses what belongs to the NIC that others share.
func refuseOfParent(c *v1alpha1.NetworkConfig) field.ErrorList {
	const why = "belongs to the NIC, which others share: leave it out"
	var errs field.ErrorList
	forbid := func(set bool, path ...string) {
		if set {
			errs = append(errs, field.Forbidden(field.NewPath(path[0], path[1:]...), why))
		}
	}
	i := c.Interface
	forbid(c.Ethtool != nil && len(c.Ethtool.Features) > 0, "ethtool", "features")
	forbid(c.Ethtool != nil && len(c.Ethtool.PrivateFlags) > 0, "ethtool", "privateFlags")
	forbid(i.DisableEBPFPrograms != nil && *i.DisableEBPFPrograms, "interface", "disableEbpfPrograms")
	forbid(i.VF != nil, "interface", "vf")
	if podstate.DHCP(c) {
		errs = append(errs, field.Forbidden(field.NewPath("interface", "dhcp"),
			"a link on a shared NIC is there with the pod only, too late to ask: want addresses, or ipam"))
	}
	return errs
}

// AsksForNCCL says whether the parameters of one of a claim's NICs ask for NCCL's environment;
// those that Plan refuses do not.
func AsksForNCCL(c driver.Claim) bool {
	return slices.ContainsFunc(c.Devices, func(a driver.Allocation) bool {
		merged, err := merge(a.Configs)
		return err == nil && merged.NCCL()
	})
}

// CheckParameters is why Plan would refuse devices of one claim on the grounds of
// their parameters alone, on whatever node: an error for each, nil where there is
// no reason, in the words of Plan. Devices have the names of their requests. What a
// profile holds is not known, and taken to be nothing.
func CheckParameters(devices []driver.Allocation) []error {
	configs, errs := make([]*v1alpha1.NetworkConfig, len(devices)), make([]error, len(devices))
	use := newPodUse()
	for i, a := range devices {
		if configs[i], errs[i] = merge(a.Configs); errs[i] == nil {
			use.reserve(configs[i], nil)
		}
	}
	for i, c := range configs {
		if errs[i] != nil {
			continue
		}
		state, err := use.stateOf(c, anyNIC(c, i))
		if err == nil {
			err = use.add(state, "for request "+devices[i].Request)
		}
		errs[i] = err
	}
	return errs
}

// anyNIC is a NIC that supports everything that a configuration sets, with a name on
// the host that no other has.
func anyNIC(c *v1alpha1.NetworkConfig, i int) *hoststate.HostNIC {
	name := fmt.Sprintf("any-nic-%d", i)
	for sysctl := range c.Sysctls {
		if ifname, _, ok := v1alpha1.InterfaceOfSysctl(sysctl); ok && ifname != "all" && ifname != "default" {
			name = ifname
		}
	}
	size := uint32(0)
	return &hoststate.HostNIC{State: hoststate.State{Name: name, Settings: rtnl.Settings{
		MAC: c.Interface.HardwareAddr, GSOMax: &size, GROMax: &size, GSOIPv4Max: &size, GROIPv4Max: &size,
	}}}
}
