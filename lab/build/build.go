// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package build makes the lab's programs from Go modules: Kubernetes,
// containerd, runc, the CNI plugins, Helm, the MPI operator, CoreDNS, DRANET to compare with,
// and plumbline itself, packed as a release is. Each foreign program is pinned by a small module of its own in a folder below this one,
// so that their requirements never meet. It runs nothing it builds.
package build

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

// Builder builds into one cache from one checkout.
type Builder struct {
	cache    *cache.Cache
	progress *progress.Printer
	// source is the checkout's root folder.
	source string
	// goVersion names toolchain and target: "go1.26.8 linux amd64".
	goVersion string
}

// New returns a builder for the checkout at source. It needs
// the go command and a C compiler, or says so.
func New(ctx context.Context, c *cache.Cache, p *progress.Printer, source string) (*Builder, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("the lab builds its programs from source: install Go (go.dev/dl): %w", err)
	}
	// Looked for now and not after the minutes that come before runc.
	if _, err := exec.LookPath("gcc"); err != nil {
		return nil, fmt.Errorf("runc has a part in C: install gcc and libc6-dev: %w", err)
	}
	version, err := output(ctx, exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH"))
	if err != nil {
		return nil, err
	}
	return &Builder{
		cache: c, progress: p, source: source,
		goVersion: strings.Join(strings.Fields(version), " "),
	}, nil
}

// goBuild is one run of go build.
type goBuild struct {
	// dir is the module's folder, packages what to build there.
	dir      string
	packages []string
	// modfile is the file in dir that pins what is built; "" is go.mod.
	modfile string
	// ldflags and tags go to the build as they are.
	ldflags, tags string
	// env is added to the caller's environment, which holds the person's
	// own proxy and cache settings.
	env []string
}

// flags are the part of the command that decides the result.
func (g goBuild) flags() []string {
	args := []string{"build", "-trimpath", "-ldflags", g.ldflags}
	if g.tags != "" {
		args = append(args, "-tags", g.tags)
	}
	if g.modfile != "" {
		args = append(args, "-modfile", g.modfile)
	}
	return args
}

// run builds into the folder or file out.
func (g goBuild) run(ctx context.Context, out string) error {
	args := append(g.flags(), "-o", out)
	cmd := exec.CommandContext(ctx, "go", append(args, g.packages...)...)
	cmd.Dir = g.dir
	// A workspace or flags of the person's own must not change what is
	// built; version control is not asked, since a checkout may have none.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	cmd.Env = append(cmd.Env, g.env...)
	_, err := output(ctx, cmd)
	return err
}

// module builds a program that is pinned by the module in the folder name
// beside this file.
func (b *Builder) module(ctx context.Context, name, title string, g goBuild) (string, error) {
	g.dir = filepath.Join(b.source, "lab", "build", name)
	step, err := b.step(name, title, g)
	if err != nil {
		return "", err
	}
	return b.cache.Do(ctx, b.progress, step)
}

// step is the build of a module. Each release of a program has a step of its own: of one
// step the cache keeps a few results only, and a release must not cost another's.
func (b *Builder) step(name, title string, g goBuild) (cache.Step, error) {
	if g.modfile != "" {
		name += "-" + strings.TrimSuffix(g.modfile, moduleSuffix)
	}
	key := new(cache.Key).Add(b.goVersion).Add(g.flags()...).Add(g.packages...).Add(g.env...)
	if err := key.AddFiles(os.DirFS(g.dir), g.others); err != nil {
		return cache.Step{}, fmt.Errorf("%s: read %s: %w", title, g.dir, err)
	}
	return cache.Step{
		Name: name, Title: title, Done: "built", Key: key.String(),
		Make: func(ctx context.Context, out string) error { return g.run(ctx, out+"/") },
	}, nil
}

// others says whether a file pins another release than the one that is built.
func (g goBuild) others(file string) bool {
	suffix := filepath.Ext(file)
	pins := suffix == moduleSuffix || suffix == sumSuffix
	return pins && strings.TrimSuffix(file, suffix) != strings.TrimSuffix(cmp.Or(g.modfile, "go.mod"), moduleSuffix)
}

// output runs a command and returns what it printed; its complaint becomes
// the error's text.
func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%s: %w", cmd, errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return stdout.String(), nil
}
