// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"fmt"

	"k8s.io/utils/cpuset"
)

// Status is of /proc/PID/status what says where a process may run.
type Status struct {
	// CPUs and Mems are Cpus_allowed_list and Mems_allowed_list.
	CPUs, Mems cpuset.CPUSet
}

// ParseStatus reads /proc/PID/status. Both lists must be there.
func ParseStatus(text []byte) (Status, error) {
	var s Status
	var err error
	if s.CPUs, err = statusList(text, "\nCpus_allowed_list:"); err != nil {
		return Status{}, err
	}
	s.Mems, err = statusList(text, "\nMems_allowed_list:")
	return s, err
}

func statusList(text []byte, label string) (cpuset.CPUSet, error) {
	// The process' name stands in the first line, with line ends escaped
	// (fs/proc/array.c, proc_task_name): no label before it counts.
	_, rest, found := bytes.Cut(text, []byte(label))
	if !found {
		return cpuset.New(), fmt.Errorf("no line %q", label[1:])
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	set, err := ParseList(string(line))
	if err != nil {
		return cpuset.New(), fmt.Errorf("line %q: %q: %w", label[1:], bytes.TrimSpace(line), err)
	}
	return set, nil
}
