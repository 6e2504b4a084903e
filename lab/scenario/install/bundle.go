// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clients are the platforms whose command line tools a release has.
var clients = []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"}

// bundle follows docs/install.md without a registry: what the release says of its files is
// so, also in the bundle, whose image has the name that the chart asks for, and whose
// command line tool runs under both of its names.
func (r *run) bundle(ctx context.Context) error {
	list, err := commands(filepath.Join(r.Checkout, "docs", "install.md"), "## Without a registry or internet")
	if err != nil {
		return err
	}
	release := filepath.Join(r.Folder, "release")
	bundles, err := filepath.Glob(filepath.Join(release, "plumbline-*-offline.tar"))
	if err != nil {
		return err
	}
	if len(list) != 3 || len(bundles) != 1 {
		return fmt.Errorf("bundle: %q by %q: want one bundle and three commands", bundles, list)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(bundles[0]), "plumbline-"), "-offline.tar")
	for i, command := range list[:2] { // the third is the node's
		list[i] = strings.ReplaceAll(command, "VERSION", version)
	}
	_, err = r.typed(ctx, "cd out/release && sha256sum --check --quiet SHA256SUMS && "+strings.Join(list[:2], " && "))
	if err != nil {
		return err
	}
	unpacked := filepath.Join(release, "plumbline-"+version)
	var missing []string
	for _, platform := range clients {
		if _, err := os.Stat(filepath.Join(unpacked, "plumbline-"+version+"-"+platform+".tar.gz")); err != nil {
			missing = append(missing, platform)
		}
	}
	r.report.Finding(len(missing) == 0, "bundle", "its checksums are right; of %d platforms' tools it lacks %d", len(clients), len(missing))
	r.report.Wrong(missing...)
	out, err := r.typed(ctx, "cd out/release && tar -xzf plumbline-"+version+"-linux-amd64.tar.gz plumbline kubectl-plumbline && ./plumbline version && ./kubectl-plumbline version")
	if err != nil {
		return err
	}
	said := strings.Split(strings.TrimSpace(out), "\n")
	r.report.Finding(len(said) == 2 && said[0] == said[1], "its command line tool", "says %s under both names", said[0])
	names, err := r.ImagesOf(ctx, filepath.Join(unpacked, "plumbline-"+version+"-image.oci.tar"))
	if err != nil {
		return err
	}
	r.report.Finding(slices.Contains(names, r.image), "its image", "has on a node the name %s, by which the chart asks for it", r.image)
	return os.RemoveAll(unpacked)
}
