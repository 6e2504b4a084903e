// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"

	"k8s.io/client-go/rest"

	"plumbline.dev/plumbline/internal/agent/addressblocks"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// serveAddresses has claims of NICs take addresses only of blocks that are not given back.
func (a *agent) serveAddresses(p *claims.Preparer) {
	if p.Name() != slicecodec.DriverNet {
		return
	}
	p.Confirm = func(r driver.Record) error {
		blocks, err := netdev.BlocksOf(r)
		if err != nil {
			return err
		}
		return a.blocks.Confirm(blocks)
	}
}

// followAddresses has the node's blocks of addresses followed until ctx ends.
func (a *agent) followAddresses(ctx context.Context, config *rest.Config) error {
	for _, p := range a.preparers {
		if p.Name() != slicecodec.DriverNet {
			continue
		}
		client, err := kube.OwnClient(config)
		if err != nil {
			return err
		}
		options := addressblocks.Options{
			Client: client, Changed: a.addressesChanged,
			Lock:  func(ctx context.Context) (func(), error) { return p.Journal.LockAllocation(ctx, p.Name()) },
			InUse: func() ([]netip.Addr, error) { return inUse(p) },
		}
		a.serving.Go(func() { a.blocks.Run(ctx, options) })
	}
	return nil
}

// inUse are the addresses that records give to interfaces, those of earlier boots included: they
// are their claims' until these end. One record that cannot be read may have any.
func inUse(p *claims.Preparer) ([]netip.Addr, error) {
	records, problems, err := p.Journal.List(p.Name())
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, problems[0]
	}
	var all []netip.Addr
	for _, r := range records {
		addresses, err := netdev.Addresses(r)
		if err != nil {
			return nil, err
		}
		all = append(all, addresses...)
	}
	return all, nil
}
