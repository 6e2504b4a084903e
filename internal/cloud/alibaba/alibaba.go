// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package alibaba asks the metadata service of an Alibaba Cloud ECS instance, and
// knows its RDMA adapters, eRDMA, by their names.
package alibaba

import (
	"context"
	"strings"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
	"plumbline.dev/plumbline/internal/model"
)

// The attributes, as the driver before this one spells them.
const (
	attrInstanceType = "alibaba.dra.net/instanceType"
	attrERDMA        = "alibaba.dra.net/erdma"
)

// usual is where every instance finds its metadata service, and tokenHeader
// what a session's token is sent in
// (alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata).
const (
	usual       = "100.100.100.200"
	tokenHeader = "X-aliyun-ecs-metadata-token"
)

// instanceEntry is the one entry that is asked for.
const instanceEntry = "/latest/meta-data/instance/instance-type"

// erdma is how the kernel's driver names its devices: erdma_0
// (drivers/infiniband/hw/erdma).
const erdma = "erdma"

// Provider is Alibaba Cloud.
type Provider struct{ client *imds.Client }

// New returns the provider that asks the metadata service at endpoint, a host or
// host:port; empty: the usual one.
func New(endpoint string) (*Provider, error) {
	client, err := imds.New(endpoint, usual)
	if err != nil {
		return nil, err
	}
	return &Provider{client: client}, nil
}

// Name is what people call it.
func (*Provider) Name() string { return "Alibaba Cloud" }

// Configures is false: the metadata holds no parameters of the driver's.
func (*Provider) Configures(cloud.Device) bool { return false }

// Probe returns nil where a metadata service gives a token.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.client.Token(ctx, tokenHeader)
	return err
}

// Lookup asks about the instance once, whatever the number of devices.
func (p *Provider) Lookup(ctx context.Context, devices []cloud.Device) ([]cloud.Answer, error) {
	token, err := p.client.Token(ctx, tokenHeader)
	if err != nil {
		return nil, err
	}
	instanceType, err := p.client.GetOptional(ctx, instanceEntry, token)
	if err != nil {
		return nil, err
	}
	answers := make([]cloud.Answer, len(devices))
	for n, d := range devices {
		answers[n] = answer(instanceType, d)
	}
	return answers, nil
}

func answer(instanceType string, d cloud.Device) cloud.Answer {
	a := cloud.Answer{Attributes: map[string]model.Attribute{}}
	if instanceType != "" {
		a.Attributes[attrInstanceType] = model.TextAttribute(instanceType)
	}
	if strings.HasPrefix(d.RDMA, erdma) {
		a.Attributes[attrERDMA] = model.FlagAttribute(true)
	}
	return a
}
