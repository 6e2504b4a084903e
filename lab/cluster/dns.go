// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	_ "embed" // coredns.yaml
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/node"
)

// coreDNS is the manifest of the cluster's DNS. Its server is in the node's own network,
// at the address that pods reach the node by: without a service proxy no Service's address
// leads anywhere.
//
//go:embed coredns.yaml
var coreDNS string

// dnsManifest fills in where the server listens and finds the API server.
func dnsManifest(host, port string) []byte {
	return []byte(strings.NewReplacer(
		"NODE_ADDRESS", node.GuestIP, "CLUSTER_DOMAIN", node.ClusterDomain, "IMAGE", image.CoreDNS,
		"PROGRAM", image.CoreDNSProgram, "API_HOST", host, "API_PORT", port,
	).Replace(coreDNS))
}

// startDNS builds CoreDNS and has it answer pods, where the options want it.
func (c *Cluster) startDNS(ctx context.Context, b *ArtifactBuilder, cp *controlplane.ControlPlane, o Options) error {
	if !o.DNS {
		return nil
	}
	program, err := b.builder.CoreDNS(ctx)
	if err != nil {
		return err
	}
	archive := b.cache.Path("coredns.tar")
	if err := ociimage.WriteDocker(archive, image.ServerImages(program, "")); err != nil {
		return err
	}
	if err := c.AddImages(ctx, archive); err != nil {
		return err
	}
	task := b.progress.Start("CoreDNS " + build.CoreDNSVersion)
	host, port := cp.GuestAddress()
	if err = c.Apply(ctx, dnsManifest(host, port)); err == nil {
		err = c.rolledOut(ctx, "kube-system", "deployment/coredns")
	}
	if err != nil {
		task.Fail()
		return fmt.Errorf("start CoreDNS: %w", err)
	}
	task.Done("answers")
	return nil
}
