// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
)

// metadata is the header that a request must have
// (learn.microsoft.com/azure/virtual-machines/instance-metadata-service).
var metadata = imds.Header{Name: "Metadata", Value: "true"}

// entry is everything of the instance, in a version of the API: the newest that
// names interconnect groups, then one that every region has.
const entry = "/metadata/instance?format=json&api-version="

var versions = []string{"2025-11-11", "2021-02-01"}

// Provider is Microsoft Azure.
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
func (*Provider) Name() string { return "Azure" }

// Configures is true of an interface, which has its routes; the metadata knows no
// other device.
func (*Provider) Configures(d cloud.Device) bool { return d.HasMAC() }

// Probe returns nil where a metadata service of Azure answers.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.read(ctx)
	return err
}

// Lookup reads the metadata once, whatever the number of devices.
func (p *Provider) Lookup(ctx context.Context, devices []cloud.Device) ([]cloud.Answer, error) {
	i, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]cloud.Answer, len(devices))
	for n, d := range devices {
		answers[n] = i.answer(d)
	}
	return answers, nil
}

func (p *Provider) read(ctx context.Context) (*instance, error) {
	var text string
	var err error
	for _, version := range versions {
		// 400: the service does not have this version yet.
		if text, err = p.client.Get(ctx, entry+version, metadata); !imds.IsStatus(err, http.StatusBadRequest) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var i instance
	if err := json.Unmarshal([]byte(text), &i); err != nil {
		return nil, fmt.Errorf("metadata /metadata/instance: %w", err)
	}
	if i.Compute == nil || i.Network == nil {
		return nil, errors.New("metadata /metadata/instance: it has no compute or no network, so it is not Azure's")
	}
	return &i, nil
}
