// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/model"
)

// The attributes. Those of the device groups are the ones that the driver of
// Neuron accelerators publishes, too.
const (
	attrInstanceType    = "aws.dra.net/instanceType"
	attrPlacementGroup  = "aws.dra.net/placementGroup"
	attrPartitionNumber = "aws.dra.net/partitionNumber"
	attrEFA             = "aws.dra.net/efa"
	attrSubnetID        = "aws.dra.net/subnetId"
)

// firstTable is that of the first interface of the first network card; each card
// has a hundred, as with amazon-ec2-net-utils.
const (
	firstTable  = 10000
	cardTables  = 100
	maxNetCards = 1000
)

// instance is what the metadata says of the machine. Empty is unknown.
type instance struct {
	// instanceType is such as p4d.24xlarge.
	instanceType string
	// placementGroup is the group's name, partition its number within a group of
	// partitions.
	placementGroup, partition string
	// macs are the interfaces', such as 0e:49:61:0f:c3:11.
	macs []string
}

// networkInterface is what stands below network/interfaces/macs/MAC/.
type networkInterface struct {
	mac, subnetID string
	// subnet is such as 10.0.128.0/20; addresses are one on a line.
	subnet, addresses string
	// deviceNumber counts interfaces on a network card; networkCard is missing on
	// machines with one.
	deviceNumber, networkCard string
}

// Attributes are those of a device of which the instance type alone is known, as of
// one in a machine file: by name with domain.
func Attributes(instanceType string, d cloud.Device) map[string]model.Attribute {
	i := instance{instanceType: instanceType}
	return i.answer(d, nil).Attributes
}

// answer says what is known of a device; n is nil where the cloud knows no
// interface of it, as of an EFA adapter.
func (i *instance) answer(d cloud.Device, n *networkInterface) cloud.Answer {
	a := cloud.Answer{Attributes: map[string]model.Attribute{}}
	set := func(name, value string) {
		if value != "" {
			a.Attributes[name] = model.TextAttribute(value)
		}
	}
	set(attrInstanceType, i.instanceType)
	set(attrPlacementGroup, i.placementGroup)
	if i.partition != "" {
		number, err := strconv.ParseUint(i.partition, 10, 16)
		if err != nil {
			a.Omitted = append(a.Omitted, fmt.Sprintf("metadata placement/partition-number: %.40q: want a number", i.partition))
		} else {
			a.Attributes[attrPartitionNumber] = model.NumberAttribute(int64(number))
		}
	}
	if d.RDMA != "" { // EFA is the one kind of RDMA hardware there is
		a.Attributes[attrEFA] = model.FlagAttribute(true)
		for name, value := range deviceGroups(i.instanceType, d.PCI) {
			set(name, value)
		}
	}
	if n != nil {
		set(attrSubnetID, n.subnetID)
		config, err := n.routing()
		if err != nil {
			a.Omitted = append(a.Omitted, fmt.Sprintf("routes of the interface with MAC %s: %v", n.mac, err))
		}
		a.Config = config
	}
	return a
}

// routing is the interface's layer of parameters: nil where it has no addresses of
// IPv4.
func (n *networkInterface) routing() ([]byte, error) {
	if n.subnet == "" || n.addresses == "" {
		return nil, nil
	}
	table, err := n.table()
	if err != nil {
		return nil, err
	}
	subnet, err := netip.ParsePrefix(n.subnet)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, text := range strings.Fields(n.addresses) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return cloud.SourceRouting(table, subnet, addresses)
}

// table is the interface's routing table, whatever other interfaces there are.
func (n *networkInterface) table() (int64, error) {
	var card uint64
	device, err := strconv.ParseUint(n.deviceNumber, 10, 16)
	if err != nil || device >= cardTables {
		return 0, fmt.Errorf("device-number %.40q: want a number below %d", n.deviceNumber, cardTables)
	}
	if n.networkCard != "" {
		card, err = strconv.ParseUint(n.networkCard, 10, 16)
	}
	if err != nil || card >= maxNetCards {
		return 0, fmt.Errorf("network-card %.40q: want a number below %d", n.networkCard, maxNetCards)
	}
	return int64(firstTable + cardTables*card + device), nil
}
