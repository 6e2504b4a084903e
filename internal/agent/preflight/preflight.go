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
	"plumbline.dev/plumbline/internal/driver/netdev"
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
	held, unread, err := heldNICs(filepath.Join(o.StateDir, "journal"), o.Drivers)
	if err != nil {
		return err
	}
	host, err := look(ctx, o.Root)
	if err != nil {
		return err
	}
	hazards, err := doctor.ReloadHazards(host, o.Module, held)
	if err != nil {
		return fmt.Errorf("look at module %s: %w", o.Module, err)
	}
	if hazards = append(hazards, unread...); len(hazards) == 0 {
		return nil
	}
	return fmt.Errorf("%w: with module %s the host would lose: %s", ErrHazard, o.Module, printable.Text(strings.Join(hazards, "; ")))
}

// heldNICs are the NICs that pods hold, and what cannot be read of them: nobody can tell
// which NICs that would be.
func heldNICs(dir string, drivers []string) (held []doctor.HeldNIC, unread []string, err error) {
	records, problems, err := journal.Read(dir, drivers)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range problems {
		unread = append(unread, "NICs that a pod may hold: "+p.Error())
	}
	for _, r := range records {
		nics, err := netdev.HeldNICs(r)
		if err != nil {
			unread = append(unread, "NICs that a pod may hold: "+err.Error())
			continue
		}
		shares, err := netdev.HeldShares(r)
		if err != nil {
			unread = append(unread, "NICs that a pod may share: "+err.Error())
		}
		for _, s := range shares {
			nics = append(nics, s.NIC)
		}
		for _, n := range nics {
			held = append(held, doctor.HeldNIC{NIC: n, By: journal.HeldBy(r)})
		}
	}
	return held, unread, nil
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
