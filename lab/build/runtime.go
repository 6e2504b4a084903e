// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Containerd are the releases that the modules in build/containerd pin.
var Containerd = Releases{"v2.4.2", "v2.2.5"}

// RuncVersion and those that follow are the releases
// that the modules beside this file pin.
const (
	RuncVersion   = "v1.5.2"
	CNIVersion    = "v1.9.1"
	DRANETVersion = "v1.4.0"
	HelmVersion   = "v3.20.2"
)

// Containerd returns the folder with containerd, containerd-shim-runc-v2 and
// ctr.
func (b *Builder) Containerd(ctx context.Context, v Versions) (string, error) {
	release, err := v.containerd()
	if err != nil {
		return "", err
	}
	return b.module(ctx, "containerd", "containerd "+string(release), goBuild{
		modfile:  Containerd.moduleFile(release),
		packages: []string{"tool"},
		ldflags:  "-s -w -X github.com/containerd/containerd/v2/version.Version=" + string(release),
		// Snapshotters the lab has no disk for.
		tags: "no_btrfs no_devmapper no_zfs osusergo netgo",
		env:  []string{"CGO_ENABLED=0"},
	})
}

// CNI returns the folder with the CNI plugins.
func (b *Builder) CNI(ctx context.Context) (string, error) {
	return b.module(ctx, "cni", "CNI plugins "+CNIVersion, goBuild{
		packages: []string{"tool"},
		ldflags:  "-s -w",
		env:      []string{"CGO_ENABLED=0"},
	})
}

// DRANET returns the folder with dranet, the driver that ours is measured beside,
// and dranet-scan, which looks at links as it does.
func (b *Builder) DRANET(ctx context.Context) (string, error) {
	return b.module(ctx, "dranet", "DRANET "+DRANETVersion, goBuild{
		packages: []string{"tool", "./dranet-scan"},
		ldflags:  "-s -w",
		env:      []string{"CGO_ENABLED=0"},
	})
}

// Helm returns the helm program. Its libraries are plumbline's own versions, so that
// most of it is compiled already.
func (b *Builder) Helm(ctx context.Context) (string, error) {
	dir, err := b.module(ctx, "helm", "Helm "+HelmVersion, goBuild{
		packages: []string{"tool"},
		ldflags:  "-s -w -X helm.sh/helm/v3/internal/version.version=" + HelmVersion,
		env:      []string{"CGO_ENABLED=0"},
	})
	return filepath.Join(dir, "helm"), err
}

// Runc returns the runc program, linked statically so that a guest needs no C
// library for it. seccomp is a folder into which Debian's libseccomp-dev is
// unpacked: without seccomp runc refuses every sandbox.
func (b *Builder) Runc(ctx context.Context, seccomp string) (string, error) {
	lib, err := libraryDir(seccomp)
	if err != nil {
		return "", err
	}
	// pkg-config may be missing here, and would look in the host's folders.
	pkgConfig, err := b.pkgConfig(seccomp, lib)
	if err != nil {
		return "", err
	}
	dir, err := b.module(ctx, "runc", "runc "+RuncVersion, goBuild{
		packages: []string{"tool"},
		ldflags:  "-s -w -linkmode external -extldflags -static -X main.version=" + strings.TrimPrefix(RuncVersion, "v"),
		tags:     "seccomp netgo osusergo",
		env:      []string{"CGO_ENABLED=1", "PKG_CONFIG=" + pkgConfig},
	})
	return filepath.Join(dir, "runc"), err
}

// libraryDir finds the folder of libseccomp.a below an unpacked Debian root;
// its name holds the architecture.
func libraryDir(root string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libseccomp.a"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("look for usr/lib/*/libseccomp.a in %s: found %d, want 1", root, len(found))
	}
	return filepath.Dir(found[0]), nil
}

// pkgConfig writes a stand-in for pkg-config that knows one library.
func (b *Builder) pkgConfig(root, lib string) (string, error) {
	path := b.cache.Path("tmp", "pkg-config-libseccomp")
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in
*" --cflags "*) echo "-I%s/usr/include" ;;
*" --libs "*) echo "-L%s -lseccomp" ;;
*" --modversion "*) echo 2.5 ;;
esac
`, root, lib)
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(tmp, []byte(script), 0o755); err != nil {
		return "", fmt.Errorf("write stand-in for pkg-config: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", fmt.Errorf("write stand-in for pkg-config: %w", err)
	}
	return path, nil
}
