// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/prometheus"
)

// PrometheusAddress is where Prometheus listens in the network of the node on this host.
const PrometheusAddress = "127.0.0.1:9090"

// Prometheus makes the program of Debian's Prometheus.
func (b *ArtifactBuilder) Prometheus(ctx context.Context) (string, error) {
	return b.archive.Prometheus(ctx)
}

// StartPrometheus runs Prometheus in the network of the node on this host, with these
// files (prometheus.Config).
func (c *Cluster) StartPrometheus(ctx context.Context, program string, files map[string][]byte) error {
	unlock, err := cache.Lock(ctx, c.lock)
	if err != nil {
		return err
	}
	defer unlock()
	enter, err := c.hostNode().InNetwork()
	if err != nil {
		return err
	}
	return prometheus.Up(ctx, prometheus.Config{
		Program: program, Enter: enter, Dir: c.dir, Address: PrometheusAddress, Dial: c.DialOnHost, Files: files,
	})
}

// StopPrometheus ends it. One that does not run is no error.
func (c *Cluster) StopPrometheus(ctx context.Context) error {
	unlock, err := cache.Lock(ctx, c.lock)
	if err != nil {
		return err
	}
	defer unlock()
	return prometheus.Down(ctx, c.dir)
}

// DialOnHost connects to an address in the network of the node on this host.
func (c *Cluster) DialOnHost(ctx context.Context, network, address string) (net.Conn, error) {
	return c.hostNode().Dial(ctx, network, address)
}
