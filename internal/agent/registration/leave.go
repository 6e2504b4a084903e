// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrServing says that an agent of this system still serves on the node.
var ErrServing = errors.New("an agent serves on this node")

// Leave takes away what agents that were killed have left in the kubelet's directories
// for drivers. While an agent lives it returns ErrServing and removes nothing. What
// another server of a driver listens on stays.
func (n Node) Leave(drivers ...string) error {
	marks, err := os.ReadDir(n.AgentsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, mark := range marks {
		lives, err := n.marked(mark.Name())
		if err != nil {
			return err
		}
		if lives {
			return fmt.Errorf("%w: %s", ErrServing, mark.Name())
		}
	}
	for _, driver := range drivers {
		for dir, prefix := range map[string]string{n.registry(): driver + "-", n.data(driver): "dra"} {
			if _, err := aliveIn(dir, prefix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		// Not where somebody has something in it.
		err := os.Remove(n.data(driver))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
