// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// Tags leave out what nobody uses and every process pays for: gRPC's tracing, whose
// templates keep the linker from dropping unused methods, and NRI's WebAssembly
// plugins. Together a quarter of the agent's memory.
const Tags = "grpcnotrace,nri_no_wasm"

// NodePrograms are the programs that run in a cluster, which the image holds.
var NodePrograms = []string{"plumbline-agent", "plumbline-operator", "plumbline-guard"}

// Client is the program for people. Called kubectl-plumbline it is a plugin of
// kubectl.
const Client = "plumbline"

// Platform is what a program is built for, in Go's names.
type Platform struct{ OS, Architecture string }

func (p Platform) String() string { return p.OS + "-" + p.Architecture }

// Architectures are those that the image is for.
var Architectures = []string{"amd64", "arm64"}

var clientPlatforms = []Platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
}

// Build builds programs of cmd/ into a folder, statically, and so that neither the
// checkout's path nor the machine is in them.
func (s Source) Build(ctx context.Context, p Platform, programs []string, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags", Tags, "-o", dir + string(filepath.Separator),
		"-ldflags", "-s -w -X plumbline.dev/plumbline/internal/version.Version=" + s.Version,
	}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS="+p.OS, "GOARCH="+p.Architecture,
		// A person's own choice of instructions would be in the programs.
		"GOAMD64=v1", "GOARM64=v8.0")
	_, err := output(cmd)
	return err
}
