// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/journal"
)

// Options are what an agent served, and where it kept what.
type Options struct {
	// Drivers are names such as "dra.net". What other servers of one keep stays.
	Drivers []string
	// StateDir, CDIDir and KubeletRoot are directories of the host.
	StateDir, CDIDir, KubeletRoot string
}

// journalDir and agentsDir are folders of the state directory.
func (o Options) journalDir() string { return filepath.Join(o.StateDir, "journal") }
func (o Options) agentsDir() string  { return filepath.Join(o.StateDir, "agents") }

// lookAgain is the time between two looks whether the agent has gone.
const lookAgain = time.Second

// ErrHeld says that claims are prepared on the host: who ends them needs what is on it.
var ErrHeld = errors.New("claims are prepared on this host")

// Run waits until no agent lives on the host, and then removes what agents kept on it:
// CDI specs, sockets, the guard, and all of the state directory, which stays empty. It
// tells of each. Where claims are prepared it removes nothing and returns ErrHeld. Killed
// anywhere and started anew, it removes the rest.
func Run(ctx context.Context, o Options, out io.Writer) error {
	if err := o.waitForAgents(ctx); err != nil {
		return err
	}
	if err := o.refuseHeld(); err != nil {
		return err
	}
	specs, err := o.removeSpecs()
	if err != nil {
		return err
	}
	kept, err := os.ReadDir(o.StateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the state directory: %w", err)
	}
	for _, entry := range kept {
		if err := os.RemoveAll(filepath.Join(o.StateDir, entry.Name())); err != nil {
			return fmt.Errorf("empty the state directory: %w", err)
		}
	}
	_, err = fmt.Fprintf(out, "%s is empty (%d entries removed), %d CDI specs removed\n", o.StateDir, len(kept), specs)
	return err
}

// waitForAgents returns when the last agent has ended, having removed sockets of killed
// ones. The kubelet ends its pod beside the one that this runs in.
func (o Options) waitForAgents(ctx context.Context) error {
	node := registration.Node{KubeletRoot: o.KubeletRoot, AgentsDir: o.agentsDir()}
	for {
		err := node.Leave(o.Drivers...)
		if !errors.Is(err, registration.ErrServing) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(lookAgain):
		}
	}
}

func (o Options) refuseHeld() error {
	held, err := journal.Held(o.journalDir(), o.Drivers)
	if err != nil || len(held) == 0 {
		return err
	}
	return fmt.Errorf("%w, and nothing is removed: %s: install plumbline again, end their pods, and then uninstall", ErrHeld, strings.Join(held, ", "))
}

// removeSpecs removes the CDI specs that agents wrote; no claim is prepared.
func (o Options) removeSpecs() (removed int, err error) {
	if _, err := os.Stat(o.CDIDir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	specs, err := cdi.Open(o.CDIDir)
	if err != nil {
		return 0, err
	}
	for _, driver := range o.Drivers {
		uids, err := specs.Written(driver)
		if err != nil {
			return removed, err
		}
		for _, uid := range uids {
			if err := specs.Remove(driver, uid); err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}
