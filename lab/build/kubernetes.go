// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"path/filepath"
)

// KubernetesVersion is the release that build/hyperkube/go.mod pins.
const KubernetesVersion = "v1.37.1"

// Hyperkube returns the program that holds control plane, kubelet and
// kubectl.
func (b *Builder) Hyperkube(ctx context.Context) (string, error) {
	dir, err := b.module(ctx, "hyperkube", "Kubernetes "+KubernetesVersion+" and etcd", goBuild{
		packages: []string{"."},
		// Kubernetes takes its version from the linker only.
		ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion,
		env:     []string{"CGO_ENABLED=0"},
	})
	return filepath.Join(dir, "hyperkube"), err
}
