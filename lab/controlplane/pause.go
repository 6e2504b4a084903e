// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"plumbline.dev/plumbline/lab/daemon"
)

// Pause stops a component without ending it: its clients wait as for a network that
// loses packets. resume lets it go on.
func (cp *ControlPlane) Pause(name string) (resume func() error, err error) {
	id, err := daemon.Read(pidPath(cp.dir, name))
	if err != nil {
		return nil, err
	}
	process, err := os.FindProcess(id.PID)
	if err != nil {
		return nil, fmt.Errorf("pause %s: %w", name, err)
	}
	if alive, err := id.Alive(); err != nil || !alive {
		return nil, errors.Join(fmt.Errorf("pause %s: it does not run", name), err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("pause %s: %w", name, err)
	}
	return func() error {
		if err := process.Signal(syscall.SIGCONT); err != nil {
			return fmt.Errorf("resume %s: %w", name, err)
		}
		return nil
	}, nil
}
