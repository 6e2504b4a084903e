// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/printable"
)

// Options are what is asked about.
type Options struct {
	// Module is the driver, such as "mlx5_core".
	Module string
	// Drivers are those of plumbline that give away NICs, such as "dra.net".
	Drivers []string
	// StateDir is the agent's; Root is the host's file system.
	StateDir, Root string
}

// ErrHazard says that the host, or a pod, would lose something.
var ErrHazard = errors.New("the driver is not replaced")

// Run returns ErrHazard with all that would be lost if the module were unloaded now.
func Run(ctx context.Context, o Options) error {
	held, err := journal.Held(filepath.Join(o.StateDir, "journal"), o.Drivers)
	if err != nil {
		return err
	}
	for i := range held {
		held[i] = "pods hold NICs: " + held[i]
	}
	host, err := look(ctx, o.Root)
	if err != nil {
		return err
	}
	hazards, err := doctor.ReloadHazards(host, o.Module)
	if err != nil {
		return fmt.Errorf("look at module %s: %w", o.Module, err)
	}
	if hazards = append(hazards, held...); len(hazards) == 0 {
		return nil
	}
	return fmt.Errorf("%w: with module %s the host would lose: %s", ErrHazard, o.Module, printable.Text(strings.Join(hazards, "; ")))
}

func look(ctx context.Context, root string) (doctor.Host, error) {
	links, err := inventory.OpenNetlink(netns.Current, nil)
	if err != nil {
		return doctor.Host{}, err
	}
	defer links.Close()
	sys := os.DirFS(filepath.Join(root, "sys"))
	machine, _, err := inventory.Scan(ctx, inventory.Sources{Sys: sys, Links: links}, inventory.Options{})
	if err != nil {
		return doctor.Host{}, fmt.Errorf("read the devices of the host: %w", err)
	}
	return doctor.Host{Machine: machine, Files: os.DirFS(root)}, nil
}
