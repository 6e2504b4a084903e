// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the kernel: ETH_MIN_MTU, IPV6_MIN_MTU, the largest MTU of any link, and
// GSO_MAX_SIZE (include/linux/netdevice.h).
const (
	minMTU     = 68
	minMTUIPv6 = 1280
	maxMTU     = 65535
	maxOffload = 8 * 65535
)

// Validate checks a merged configuration, and returns every mistake at once.
func (c *NetworkConfig) Validate() error { return c.Mistakes().ToAggregate() }

// Mistakes are what Validate finds, by field. Another layer may correct one of type
// Required or Forbidden by setting other fields, and any other only by replacing the
// value.
func (c *NetworkConfig) Mistakes() field.ErrorList {
	errs := c.Interface.validate(field.NewPath("interface"))
	errs = append(errs, checkLength(field.NewPath("profile"), c.Profile)...)
	errs = append(errs, c.validateRoutes(field.NewPath("routes"))...)
	errs = append(errs, c.validateRules(field.NewPath("rules"))...)
	errs = append(errs, c.validateNeighbors(field.NewPath("neighbors"))...)
	errs = append(errs, checkSysctls(field.NewPath("sysctls"), c.Sysctls)...)
	errs = append(errs, oneOf(field.NewPath("environment"), c.Environment, EnvironmentNone, EnvironmentNCCL)...)
	if c.Container != nil {
		errs = append(errs, c.Container.validate(field.NewPath("container"))...)
	}
	if c.Ethtool != nil {
		errs = append(errs, checkFlagNames(field.NewPath("ethtool", "features"), c.Ethtool.Features)...)
		errs = append(errs, checkFlagNames(field.NewPath("ethtool", "privateFlags"), c.Ethtool.PrivateFlags)...)
	}
	return errs
}

// MistakesOfClaim are what a layer may not say that comes with a claim, whose author is
// not trusted with the node. Nothing in another layer sets them right.
func (c *NetworkConfig) MistakesOfClaim() field.ErrorList {
	if c.Container == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("container"),
		"gives containers what is the host's, which no claim may: want it in the parameters of a DeviceClass, by an administrator")}
}

// ValidateRDMAOnly checks a configuration for an RDMA device that has no network
// interface: only its character devices, and what containers are told and get, can be
// asked for.
func (c *NetworkConfig) ValidateRDMAOnly() error {
	var errs field.ErrorList
	for _, l := range c.FieldValues() {
		if l.Path != "environment" && !strings.HasPrefix(l.Path, "rdma.") && !strings.HasPrefix(l.Path, "container.") {
			errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: l.Path,
				Detail: "the device has no network interface: want nothing but rdma, environment and container"})
		}
	}
	return errs.ToAggregate()
}
