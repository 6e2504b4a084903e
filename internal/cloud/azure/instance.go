// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"fmt"
	"net/netip"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/model"
)

// The attributes, as the driver before this one spells them.
const (
	attrVMSize                 = "azure.dra.net/vmSize"
	attrPlacementGroupID       = "azure.dra.net/placementGroupId"
	attrInterconnectGroupID    = "azure.dra.net/interconnectGroupId"
	attrInterconnectSubgroupID = "azure.dra.net/interconnectSubgroupId"
	attrSubnet                 = "azure.dra.net/subnet"
)

// firstTable is the routing table of the first interface, far from what people write
// by hand, and maxInterfaces how many have one; no machine has more than 15.
const (
	firstTable    = 20000
	maxInterfaces = 128
)

// instance is what the metadata service says. Empty is unknown.
type instance struct {
	Compute *compute `json:"compute"`
	Network *network `json:"network"`
}

type compute struct {
	// VMSize is such as Standard_ND96isr_H100_v5.
	VMSize string `json:"vmSize"`
	// PlacementGroupID is that of a scale set.
	PlacementGroupID       string `json:"placementGroupId"`
	InterconnectGroupID    string `json:"interconnectGroupId"`
	InterconnectSubgroupID string `json:"interconnectSubgroupId"`
}

type network struct {
	Interface []networkInterface `json:"interface"`
}

// networkInterface is one entry of network/interface.
type networkInterface struct {
	// MACAddress has no colons: 000D3AF806EC.
	MACAddress string `json:"macAddress"`
	IPv4       struct {
		IPAddress []struct {
			PrivateIPAddress string `json:"privateIpAddress"`
		} `json:"ipAddress"`
		Subnet []struct {
			Address string `json:"address"`
			// Prefix is the number of bits, as text.
			Prefix string `json:"prefix"`
		} `json:"subnet"`
	} `json:"ipv4"`
}

// Attributes are those of a device of which the machine's size alone is known, as
// of one in a machine file: by name with domain.
func Attributes(vmSize string) map[string]model.Attribute {
	i := instance{Compute: &compute{VMSize: vmSize}, Network: &network{}}
	return i.answer(cloud.Device{}).Attributes
}

func (i *instance) answer(d cloud.Device) cloud.Answer {
	a := cloud.Answer{Attributes: map[string]model.Attribute{}}
	for name, value := range map[string]string{
		attrVMSize: i.Compute.VMSize, attrPlacementGroupID: i.Compute.PlacementGroupID,
		attrInterconnectGroupID: i.Compute.InterconnectGroupID, attrInterconnectSubgroupID: i.Compute.InterconnectSubgroupID,
	} {
		if value != "" {
			a.Attributes[name] = model.TextAttribute(value)
		}
	}
	all := i.Network.Interface[:min(len(i.Network.Interface), maxInterfaces)]
	at := cloud.IndexMAC(d, all, func(n networkInterface) string { return n.MACAddress })
	if at < 0 || len(all[at].IPv4.Subnet) == 0 {
		return a
	}
	n := all[at]
	subnet, err := netip.ParsePrefix(n.IPv4.Subnet[0].Address + "/" + n.IPv4.Subnet[0].Prefix)
	if err == nil {
		a.Attributes[attrSubnet] = model.TextAttribute(subnet.String())
		a.Config, err = n.routing(firstTable+int64(at), subnet)
	}
	if err != nil {
		a.Omitted = append(a.Omitted, fmt.Sprintf("metadata of the interface with MAC %.40q: %v", n.MACAddress, err))
	}
	return a
}

// routing is the interface's layer of parameters: nil where it has no addresses of
// IPv4.
func (n *networkInterface) routing(table int64, subnet netip.Prefix) ([]byte, error) {
	var addresses []netip.Addr
	for _, entry := range n.IPv4.IPAddress {
		if entry.PrivateIPAddress == "" {
			continue
		}
		address, err := netip.ParseAddr(entry.PrivateIPAddress)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 {
		return nil, nil
	}
	return cloud.SourceRouting(table, subnet, addresses)
}
