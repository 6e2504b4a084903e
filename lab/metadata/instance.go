// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"fmt"

	"plumbline.dev/plumbline/internal/machine/facts"
)

// project is the number of the project that the lab's networks are in.
const project = 1

// Provider is what a machine file calls the cloud whose metadata this is.
const Provider = "gcp"

// instance is what the metadata server of a node with that hardware says. mac
// is the address of its i-th NIC, counted from 1.
func instance(f *facts.Facts, mac func(i int) string) entry {
	var interfaces []entry
	for i, n := range f.NICs {
		if n.Network == "" {
			continue // on GCE each interface has one, and the machine file has none
		}
		e := folder("",
			leaf("ip-aliases", []string{}),
			leaf("mac", mac(i+1)),
			leaf("network", fmt.Sprintf("projects/%d/networks/%s", project, n.Network)),
		)
		if n.MTU != nil {
			e.folders = append(e.folders, leaf("mtu", *n.MTU))
		}
		interfaces = append(interfaces, e)
	}
	return folder("",
		folder("instance",
			folder("attributes"),
			leaf("machine-type", fmt.Sprintf("projects/%d/machineTypes/%s", project, f.Name)),
			leaf("name", f.Name),
			listing("network-interfaces", interfaces...),
		),
		folder("project",
			leaf("numeric-project-id", project),
			leaf("project-id", "plumbline-lab"),
		),
	)
}
