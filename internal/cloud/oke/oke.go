// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package oke asks the metadata service of an Oracle Cloud instance where in the
// cluster network its host stands.
package oke

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
	"plumbline.dev/plumbline/internal/model"
)

// The attributes, as the driver before this one spells them.
const (
	attrHPCIslandID       = "oke.dra.net/hpcIslandId"
	attrNetworkBlockID    = "oke.dra.net/networkBlockId"
	attrLocalBlockID      = "oke.dra.net/localBlockId"
	attrRackID            = "oke.dra.net/rackId"
	attrGPUMemoryFabricID = "oke.dra.net/gpuMemoryFabricId"
)

// authorization is the header that a request must have
// (docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm).
var authorization = imds.Header{Name: "Authorization", Value: "Bearer Oracle"}

// The entries that are asked for.
const (
	shapeEntry = "/opc/v2/instance/shape"
	hostEntry  = "/opc/v2/host/"
)

// Provider is Oracle Cloud Infrastructure.
type Provider struct{ client *imds.Client }

// New returns the provider that asks the metadata service at endpoint, a host or
// host:port; empty: imds.LinkLocal.
func New(endpoint string) (*Provider, error) {
	client, err := imds.New(endpoint, imds.LinkLocal)
	if err != nil {
		return nil, err
	}
	return &Provider{client: client}, nil
}

// Name is what people call it.
func (*Provider) Name() string { return "OKE" }

// Configures is false: the metadata holds no parameters of the driver's.
func (*Provider) Configures(cloud.Device) bool { return false }

// Probe returns nil where a metadata service of Oracle's answers.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.client.Get(ctx, shapeEntry, authorization)
	return err
}

// Lookup reads the host's metadata once: what it says holds for all devices.
func (p *Provider) Lookup(ctx context.Context, devices []cloud.Device) ([]cloud.Answer, error) {
	text, err := p.client.GetOptional(ctx, hostEntry, authorization)
	if err != nil {
		return nil, err
	}
	var h host
	if text != "" { // small shapes have no host of their own to tell of
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", hostEntry, err)
		}
	}
	answers := make([]cloud.Answer, len(devices))
	for n := range devices {
		answers[n] = h.answer()
	}
	return answers, nil
}

// host is the answer to hostEntry. Empty is unknown.
type host struct {
	RackID string `json:"rackId"`
	// Topology is there on shapes with RDMA, where the tenancy may see it. All are
	// OCIDs.
	Topology struct {
		HPCIsland       string `json:"customerHPCIslandId"`
		NetworkBlock    string `json:"customerNetworkBlock"`
		LocalBlock      string `json:"customerLocalBlock"`
		GPUMemoryFabric string `json:"customerGpuMemoryFabric"`
	} `json:"rdmaTopologyData"`
}

func (h *host) answer() cloud.Answer {
	a := cloud.Answer{Attributes: map[string]model.Attribute{}}
	if h.RackID != "" {
		a.Attributes[attrRackID] = model.TextAttribute(h.RackID)
	}
	for _, f := range []struct{ attribute, entry, ocid string }{
		{attrHPCIslandID, "customerHPCIslandId", h.Topology.HPCIsland},
		{attrNetworkBlockID, "customerNetworkBlock", h.Topology.NetworkBlock},
		{attrLocalBlockID, "customerLocalBlock", h.Topology.LocalBlock},
		{attrGPUMemoryFabricID, "customerGpuMemoryFabric", h.Topology.GPUMemoryFabric},
	} {
		if f.ocid == "" {
			continue
		}
		unique, err := uniqueID(f.ocid)
		if err != nil {
			a.Omitted = append(a.Omitted, fmt.Sprintf("metadata rdmaTopologyData.%s: %v", f.entry, err))
			continue
		}
		a.Attributes[f.attribute] = model.TextAttribute(unique)
	}
	return a
}

// uniqueID is the last part of an OCID such as
// ocid1.hpcisland.oc1.iad.aaaaaaaa…, of 60 letters. The whole is longer than an
// attribute may be, and the last part tells one resource from all others
// (docs.oracle.com/iaas/Content/General/Concepts/identifiers.htm).
func uniqueID(ocid string) (string, error) {
	parts := strings.Split(ocid, ".")
	if len(parts) < 5 || !strings.HasPrefix(parts[0], "ocid") || parts[len(parts)-1] == "" {
		return "", fmt.Errorf("%.80q: want an OCID, ocid1.TYPE.REALM.REGION.ID", ocid)
	}
	return parts[len(parts)-1], nil
}
