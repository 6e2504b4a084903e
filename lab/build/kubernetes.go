// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"path/filepath"
)

// Kubernetes are the releases that the modules in build/hyperkube pin.
var Kubernetes = Releases{"v1.37.1", "v1.36.4", "v1.34.4"}

// Hyperkube returns the program that holds control plane, kubelet and
// kubectl.
func (b *Builder) Hyperkube(ctx context.Context, v Versions) (string, error) {
	release, err := v.kubernetes()
	if err != nil {
		return "", err
	}
	dir, err := b.module(ctx, "hyperkube", "Kubernetes "+string(release)+" and etcd", goBuild{
		modfile:  Kubernetes.moduleFile(release),
		packages: []string{"."},
		// Kubernetes takes its version from the linker only.
		ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=" + string(release),
		env:     []string{"CGO_ENABLED=0"},
	})
	return filepath.Join(dir, "hyperkube"), err
}
