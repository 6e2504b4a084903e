// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
)

// The entries that are asked for, below /computeMetadata/v1/
// (cloud.google.com/compute/docs/metadata/predefined-metadata-keys).
const (
	machineTypeEntry  = "instance/machine-type"
	interfacesEntry   = "instance/network-interfaces/?recursive=true&alt=json"
	physicalHostEntry = "instance/attributes/physical_host"
)

// Provider is Google Compute Engine.
type Provider struct{ client *metadata.Client }

// New returns the provider that asks the metadata server at endpoint, a host or
// host:port; empty: imds.LinkLocal (cloud.google.com/compute/docs/metadata/overview).
func New(endpoint string) (*Provider, error) {
	endpoint, err := imds.Endpoint(endpoint, imds.LinkLocal)
	if err != nil {
		return nil, err
	}
	return &Provider{client: metadata.NewWithOptions(&metadata.Options{Client: newHTTPClient(endpoint)})}, nil
}

// Name is what people call it.
func (*Provider) Name() string { return "GCE" }

// Configures is false: the metadata holds no parameters of the driver's.
func (*Provider) Configures(cloud.Device) bool { return false }

// Probe returns nil where a metadata server of GCE answers.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.client.GetWithContext(ctx, machineTypeEntry)
	if isMissing(err) {
		return nil // the server is there, and says that it does not know
	}
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

// read asks for all entries at once.
func (p *Provider) read(ctx context.Context) (*instance, error) {
	var i instance
	var machineType, interfaces string
	group, ctx := errgroup.WithContext(ctx)
	ask := func(entry string, needed bool, into *string) {
		group.Go(func() (err error) {
			*into, err = p.client.GetWithContext(ctx, entry)
			if isMissing(err) && !needed {
				return nil
			}
			return err
		})
	}
	ask(interfacesEntry, true, &interfaces)
	ask(machineTypeEntry, false, &machineType)
	ask(physicalHostEntry, false, &i.physicalHost)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(interfaces), &i.interfaces); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", interfacesEntry, err)
	}
	// projects/PROJECT_NUMBER/machineTypes/MACHINE_TYPE
	if machineType != "" {
		i.machineType = path.Base(machineType)
	}
	return &i, nil
}

func isMissing(err error) bool {
	var missing metadata.NotDefinedError
	return errors.As(err, &missing)
}
