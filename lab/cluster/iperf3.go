// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/node"
)

// Iperf3 packs Debian's iperf3 and returns the archive of its image. A cluster is run without
// it.
func (b *ArtifactBuilder) Iperf3(ctx context.Context) (string, error) {
	root, err := b.archive.Iperf3(ctx)
	if err != nil {
		return "", err
	}
	tool, err := node.Iperf3(root)
	if err != nil {
		return "", err
	}
	busybox, err := b.archive.Busybox(ctx)
	if err != nil {
		return "", err
	}
	applets, err := image.Applets(ctx, busybox)
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for inside, f := range tool {
		files[inside] = f.Source
	}
	archive := b.cache.Path("iperf3.tar")
	return archive, ociimage.WriteDocker(archive, image.Iperf3Image(busybox, applets, files))
}
