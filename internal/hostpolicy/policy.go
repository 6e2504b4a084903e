// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/model"
)

// Policy is what one node must be.
type Policy struct {
	Name       string
	Generation int64
	Links      []LinkPolicy
	HostPolicy
	// DryRun only tells what would change. What the policy set before stays.
	DryRun bool
}

// LinkPolicy is what the links must be that exactly one of PCIAddress, RDMADevice,
// Interface, Driver, Role and CEL finds. Nil leaves a setting as it is.
type LinkPolicy struct {
	PCIAddress, RDMADevice, Interface, Driver string
	Role                                      Role
	// CEL is an expression over what a link is published with, as in a device class.
	CEL string

	Up  *bool
	MTU *int
	// AltName is one more name of the link; it must match no more than one.
	AltName string
	// Sysctls are settings of the link by key, such as ipv4/conf/arp_ignore.
	Sysctls map[string]string

	// MaxReadRequest is how much the PCI function reads at a time, in bytes.
	MaxReadRequest *int
	// RelaxedOrdering is whether the PCI function's writes may pass each other.
	RelaxedOrdering *bool
	// NumVFs is how many virtual functions the PCI function has.
	NumVFs *int

	// Share offers the link to many pods at once.
	Share *model.Share
}

// Role is what a NIC is there for, as far as the machine itself says so.
type Role string

const (
	// RoleGPU is a NIC that shares a PCIe root with a GPU: GPUs' traffic goes by it.
	RoleGPU Role = "gpu"
	// RoleOther is any other PCI function with a link: for storage and the node itself.
	RoleOther Role = "other"
)

// sysctls are the settings that a policy may set, each with its greatest value: those
// that several NICs in one subnet need, so that each answers for its own addresses.
// None of them opens the host to others, as forwarding would.
var sysctls = map[string]int{
	"ipv4/conf/arp_announce": 2,
	"ipv4/conf/arp_filter":   1,
	"ipv4/conf/arp_ignore":   8,
	"ipv4/conf/arp_notify":   1,
	"ipv4/conf/rp_filter":    2,
}

const (
	minMTU = 68 // net/ipv4: the smallest that IPv4 can use
	maxMTU = 65535
)

var (
	// altName fits ALTIFNAMSIZ, 128 bytes with its end.
	altName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`)
	// ifname fits IFNAMSIZ, 16 bytes with its end.
	ifname = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	// word is a driver's or an RDMA device's name.
	word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
)

// Validate refuses what no link can be.
func (p Policy) Validate() error {
	var errs []error
	for i, l := range p.Links {
		if err := l.validate(); err != nil {
			errs = append(errs, fmt.Errorf("policy %q: links[%d]: %w", p.Name, i, err))
		}
	}
	if err := p.validate(); err != nil {
		errs = append(errs, fmt.Errorf("policy %q: %w", p.Name, err))
	}
	return errors.Join(errs...)
}

func (l LinkPolicy) validate() error {
	errs := []error{l.validateFinder()}
	if l.MTU != nil && (*l.MTU < minMTU || *l.MTU > maxMTU) {
		errs = append(errs, fmt.Errorf("mtu: %d: want %d-%d", *l.MTU, minMTU, maxMTU))
	}
	if l.AltName != "" && !altName.MatchString(l.AltName) {
		errs = append(errs, fmt.Errorf("altName: %q: want 1-127 letters, digits, '.', '_' and '-'", l.AltName))
	}
	for _, key := range slices.Sorted(maps.Keys(l.Sysctls)) {
		errs = append(errs, validateSysctl(key, l.Sysctls[key]))
	}
	errs = append(errs, validateShare(l.Share))
	for field, value := range l.functionWants() {
		errs = append(errs, hostsetup.Change{Function: anyFunction, Field: field, Value: value}.Validate())
	}
	return errors.Join(errs...)
}

// validateFinder refuses what finds no link, or in two ways.
func (l LinkPolicy) validateFinder() error {
	var errs []error
	if _, given := l.finder(); given != 1 {
		errs = append(errs, fmt.Errorf("has %d of pciAddress, rdmaDevice, interface, driver, role and selector: want exactly one", given))
	}
	if l.PCIAddress != "" {
		if _, err := model.ParsePCIAddress(l.PCIAddress); err != nil {
			errs = append(errs, fmt.Errorf("pciAddress: %w", err))
		}
	}
	for field, s := range map[string]string{"rdmaDevice": l.RDMADevice, "driver": l.Driver} {
		if s != "" && !word.MatchString(s) {
			errs = append(errs, fmt.Errorf("%s: %q: want 1-63 letters, digits, '.', '_' and '-'", field, s))
		}
	}
	if l.Role != "" && l.Role != RoleGPU && l.Role != RoleOther {
		errs = append(errs, fmt.Errorf("role: %q: want %s or %s", l.Role, RoleGPU, RoleOther))
	}
	if l.CEL != "" {
		if _, err := compile(l.CEL); err != nil {
			errs = append(errs, err)
		}
	}
	if l.Interface != "" && !ifname.MatchString(l.Interface) {
		errs = append(errs, fmt.Errorf("interface: %q: want 1-15 letters, digits, '.', '_' and '-'", l.Interface))
	}
	return errors.Join(errs...)
}

// anyFunction is an address for checks of what is asked of functions.
const anyFunction = "0000:00:00.0"

// functionWants are the values of the PCI function by field.
func (l LinkPolicy) functionWants() map[string]string {
	wants := map[string]string{}
	if l.MaxReadRequest != nil {
		wants[hostsetup.FieldMaxReadRequest] = strconv.Itoa(*l.MaxReadRequest)
	}
	if l.RelaxedOrdering != nil {
		wants[hostsetup.FieldRelaxedOrdering] = strconv.FormatBool(*l.RelaxedOrdering)
	}
	if l.NumVFs != nil {
		wants[fieldNumVFs] = strconv.Itoa(*l.NumVFs)
	}
	return wants
}

// ofFunction says whether a field is of a PCI function.
func ofFunction(field string) bool {
	return field == hostsetup.FieldMaxReadRequest || field == hostsetup.FieldRelaxedOrdering || field == fieldNumVFs
}

func validateSysctl(key, value string) error {
	most, ok := sysctls[key]
	if !ok {
		return fmt.Errorf("sysctls[%q]: a policy may not set it: want one of %s",
			key, strings.Join(slices.Sorted(maps.Keys(sysctls)), ", "))
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > most || strconv.Itoa(n) != value {
		return fmt.Errorf("sysctls[%q]: %q: want a number, 0-%d", key, value, most)
	}
	return nil
}

// Fields of a link. Those of names and sysctls end with them.
const (
	fieldAltName = "altName/"
	fieldMTU     = "mtu"
	fieldNumVFs  = hostsetup.FieldNumVFs
	fieldShare   = "share"
	fieldSysctl  = hostsetup.FieldSysctl
	fieldUp      = "up"

	present = hostsetup.Present
	absent  = hostsetup.Absent
)

// wants are the values by field.
func (l LinkPolicy) wants() map[string]string {
	wants := l.functionWants()
	if l.Up != nil {
		wants[fieldUp] = strconv.FormatBool(*l.Up)
	}
	if l.MTU != nil {
		wants[fieldMTU] = strconv.Itoa(*l.MTU)
	}
	if l.AltName != "" {
		wants[fieldAltName+l.AltName] = present
	}
	for key, value := range l.Sysctls {
		wants[fieldSysctl+key] = value
	}
	if l.Share != nil {
		wants[fieldShare] = shareText(l.Share)
	}
	return wants
}
