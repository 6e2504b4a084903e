// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	_ "embed" // allreduce.c
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/cache"
)

// MPIOperatorVersion and CoreDNSVersion are the releases that the modules in
// build/mpioperator and build/coredns pin.
const (
	MPIOperatorVersion = "v0.7.0"
	CoreDNSVersion     = "v1.14.0"
)

// mpiOperatorModule is the MPI operator's module: its manifests lie beside the source.
const mpiOperatorModule = "github.com/kubeflow/mpi-operator"

// MPIOperator is Kubeflow's MPI operator, as its release has it.
type MPIOperator struct {
	// Program is the operator, Manifests the folder that kubectl apply -k is given.
	Program, Manifests string
}

// MPIOperator builds the MPI operator.
func (b *Builder) MPIOperator(ctx context.Context) (MPIOperator, error) {
	const folder = "mpioperator"
	dir, err := b.module(ctx, folder, "MPI operator "+MPIOperatorVersion, goBuild{
		packages: []string{"tool"},
		ldflags:  "-s -w",
		env:      []string{"CGO_ENABLED=0"},
	})
	if err != nil {
		return MPIOperator{}, err
	}
	source, err := b.moduleSource(ctx, folder, mpiOperatorModule)
	return MPIOperator{
		Program:   filepath.Join(dir, "mpi-operator"),
		Manifests: filepath.Join(source, "manifests", "overlays", "standalone"),
	}, err
}

// moduleSource is where the source lies of a module that the module in a folder beside this
// file pins.
func (b *Builder) moduleSource(ctx context.Context, folder, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = filepath.Join(b.source, "lab", "build", folder)
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	found, err := output(ctx, list)
	return strings.TrimSpace(found), err
}

// CoreDNS returns the program that answers pods' questions for names of the cluster.
func (b *Builder) CoreDNS(ctx context.Context) (string, error) {
	dir, err := b.module(ctx, "coredns", "CoreDNS "+CoreDNSVersion, goBuild{
		packages: []string{"."},
		ldflags:  "-s -w",
		env:      []string{"CGO_ENABLED=0"},
	})
	return filepath.Join(dir, "coredns"), err
}

// allreduce is a program of MPI's that says what it added up and whether that is right.
//
//go:embed allreduce/allreduce.c
var allreduce string

// Allreduce compiles a program of MPI's, by the folder of Open MPI's headers and its library.
func (b *Builder) Allreduce(ctx context.Context, headers, library string) (string, error) {
	const title, name = "allreduce", "allreduce"
	compiler, err := output(ctx, exec.CommandContext(ctx, "gcc", "-dumpfullversion", "-dumpmachine"))
	if err != nil {
		return "", err
	}
	// What the library itself is linked against is in the image, not on this host.
	flags := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wl,--allow-shlib-undefined"}
	dir, err := b.cache.Do(ctx, b.progress, cache.Step{
		Name: name, Title: title, Done: "built",
		Key: new(cache.Key).Add(compiler, allreduce, headers, library).Add(flags...).String(),
		Make: func(ctx context.Context, out string) error {
			cmd := exec.CommandContext(ctx, "gcc", append(flags, "-I", headers, "-x", "c", "-", "-x", "none", library, "-o", filepath.Join(out, name))...)
			cmd.Stdin = strings.NewReader(allreduce)
			_, err := output(ctx, cmd)
			return err
		},
	})
	return filepath.Join(dir, name), err
}
