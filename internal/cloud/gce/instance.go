// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gce

import (
	"fmt"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/model"
)

// The attributes, as the drivers before this one spell them.
const (
	attrMachineType          = "gce.dra.net/machineType"
	attrBlock                = "gce.dra.net/block"
	attrSubBlock             = "gce.dra.net/subBlock"
	attrHost                 = "gce.dra.net/host"
	attrNetworkName          = "gce.dra.net/networkName"
	attrNetworkProjectNumber = "gce.dra.net/networkProjectNumber"
	attrIPAliases            = "gce.dra.net/ipAliases"
)

// Attributes are those of an interface of which its network is known alone, as of one
// in a machine file: by name with domain.
func Attributes(network string) map[string]model.Attribute {
	return map[string]model.Attribute{attrNetworkName: model.TextAttribute(network)}
}

// instance is what the metadata server says. Empty is unknown.
type instance struct {
	// machineType is such as ct6e-standard-4t.
	machineType string
	// physicalHost is /BLOCK/SUBBLOCK/HOST, on machines that tell
	// (cloud.google.com/compute/docs/instances/use-compact-placement-policies).
	physicalHost string
	interfaces   []networkInterface
}

// networkInterface is one entry of instance/network-interfaces/.
type networkInterface struct {
	MAC string `json:"mac"`
	// Network is projects/PROJECT_NUMBER/networks/NAME.
	Network string `json:"network"`
	// IPAliases are ranges such as 10.24.3.0/24.
	IPAliases []string `json:"ipAliases"`
}

func (i *instance) answer(d cloud.Device) cloud.Answer {
	a := cloud.Answer{Attributes: map[string]model.Attribute{}}
	set := func(name, value string) {
		if value != "" {
			a.Attributes[name] = model.TextAttribute(value)
		}
	}
	set(attrMachineType, i.machineType)
	if parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(i.physicalHost), "/"), "/"); len(parts) == 3 {
		set(attrBlock, parts[0])
		set(attrSubBlock, parts[1])
		set(attrHost, parts[2])
	} else if i.physicalHost != "" {
		a.Omitted = append(a.Omitted, fmt.Sprintf("metadata %s: %.80q: want /block/subblock/host", physicalHostEntry, i.physicalHost))
	}
	at := cloud.IndexMAC(d, i.interfaces, func(n networkInterface) string { return n.MAC })
	if at < 0 {
		return a
	}
	n := i.interfaces[at]
	set(attrIPAliases, cloud.List(n.IPAliases))
	project, name, err := parseNetwork(n.Network)
	if err != nil {
		a.Omitted = append(a.Omitted, fmt.Sprintf("metadata of the interface with MAC %s: %v", n.MAC, err))
		return a
	}
	set(attrNetworkName, name)
	a.Attributes[attrNetworkProjectNumber] = model.NumberAttribute(project)
	return a
}

// parseNetwork reads projects/PROJECT_NUMBER/networks/NAME.
func parseNetwork(text string) (project int64, name string, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[2] != "networks" || parts[3] == "" {
		return 0, "", fmt.Errorf("network %.80q: want projects/NUMBER/networks/NAME", text)
	}
	if project, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return 0, "", fmt.Errorf("network %.80q: want a project's number: %w", text, err)
	}
	return project, parts[3], nil
}
