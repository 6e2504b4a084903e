// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/imds"
)

// tokenHeader is what a session's token is sent in
// (docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html).
const tokenHeader = "X-aws-ec2-metadata-token"

// The entries that are asked for
// (docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html).
const (
	metaData        = "/latest/meta-data/"
	instanceEntry   = metaData + "instance-type"
	groupEntry      = metaData + "placement/group-name"
	partitionEntry  = metaData + "placement/partition-number"
	interfacesEntry = metaData + "network/interfaces/macs/"
)

// Bounds of one look. The largest instances have 32 network cards of two
// interfaces each.
const (
	maxInterfaces = 128
	atOnce        = 8
)

// Provider is Amazon EC2.
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
func (*Provider) Name() string { return "AWS" }

// Configures is true of an interface, which has its routes; the metadata knows no
// other device.
func (*Provider) Configures(d cloud.Device) bool { return d.HasMAC() }

// Probe returns nil where a metadata service gives a token.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.client.Token(ctx, tokenHeader)
	return err
}

// Lookup asks about the instance once, and about each interface that is a device's.
func (p *Provider) Lookup(ctx context.Context, devices []cloud.Device) ([]cloud.Answer, error) {
	token, err := p.client.Token(ctx, tokenHeader)
	if imds.IsStatus(err, http.StatusForbidden) || imds.IsMissing(err) {
		return switchedOff(devices, err), nil
	}
	if err != nil {
		return nil, err
	}
	s := session{client: p.client, token: token}
	i, err := s.instance(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]cloud.Answer, len(devices))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for n, d := range devices {
		group.Go(func() error {
			answers[n] = s.answer(ctx, i, d)
			return nil
		})
	}
	return answers, group.Wait()
}

// switchedOff answers for a service that an administrator of the instance switched
// off, and that says so: waiting for it would keep every claim of a NIC for ever.
func switchedOff(devices []cloud.Device, said error) []cloud.Answer {
	answers := make([]cloud.Answer, len(devices))
	var unknown instance
	for n, d := range devices {
		answers[n] = unknown.answer(d, nil)
		if d.HasMAC() {
			answers[n].Omitted = []string{fmt.Sprintf("routes of the interface: the metadata service is switched off: %v", said)}
		}
	}
	return answers
}

// session asks with one token.
type session struct {
	client *imds.Client
	token  imds.Header
}

// ask reads several entries at the same time; one that is not there is empty.
func (s session) ask(ctx context.Context, entries map[string]*string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for path, into := range entries {
		group.Go(func() (err error) {
			*into, err = s.client.GetOptional(ctx, path, s.token)
			return err
		})
	}
	return group.Wait()
}

func (s session) instance(ctx context.Context) (*instance, error) {
	var i instance
	var macs string
	err := s.ask(ctx, map[string]*string{
		instanceEntry: &i.instanceType, groupEntry: &i.placementGroup, partitionEntry: &i.partition, interfacesEntry: &macs,
	})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(macs) {
		if len(i.macs) == maxInterfaces {
			break
		}
		i.macs = append(i.macs, strings.TrimSuffix(strings.TrimSpace(line), "/"))
	}
	return &i, nil
}

// answer asks for the interface of a device, if the cloud knows one.
func (s session) answer(ctx context.Context, i *instance, d cloud.Device) cloud.Answer {
	at := cloud.IndexMAC(d, i.macs, func(mac string) string { return mac })
	if at < 0 {
		return i.answer(d, nil)
	}
	n := networkInterface{mac: i.macs[at]}
	// What was found has the letters of a MAC only.
	below := interfacesEntry + n.mac + "/"
	err := s.ask(ctx, map[string]*string{
		below + "subnet-id": &n.subnetID, below + "subnet-ipv4-cidr-block": &n.subnet, below + "local-ipv4s": &n.addresses,
		below + "device-number": &n.deviceNumber, below + "network-card": &n.networkCard,
	})
	if err != nil {
		return cloud.Answer{Err: err}
	}
	return i.answer(d, &n)
}
