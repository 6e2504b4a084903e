// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"plumbline.dev/plumbline/internal/host/procfs"
)

// listProcesses lists the processes of the targets' containers, ascending, by container
// id. cgroup.procs would be shorter, but shows no process of another process
// namespace than the reader's (kernel/cgroup/cgroup.c, cgroup_procs_show).
func (r *Reader) listProcesses(targets []Target) (map[string][]int, error) {
	wanted := map[string]bool{}
	for _, t := range targets {
		for _, c := range t.Containers {
			wanted[c.ID] = true
		}
	}
	pids := make(map[string][]int, len(wanted))
	if len(wanted) == 0 {
		return pids, nil
	}
	dir, err := os.Open(r.options.Proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 0 {
			continue
		}
		text, err := r.read(name + "/cgroup")
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("read the control group of process %d: %w", pid, err)
		}
		if err != nil {
			continue // it has ended
		}
		procfs.EachContainerID(text, func(id []byte) bool {
			if !wanted[string(id)] {
				return true
			}
			pids[string(id)] = append(pids[string(id)], pid)
			return false
		})
	}
	return pids, nil
}
