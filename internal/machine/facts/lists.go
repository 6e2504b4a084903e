// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

func (p *parser) cpulist(into **cpuset.CPUSet) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		set, err := parseList(s, maxCPU)
		if err != nil {
			return err
		}
		*into = &set
		return nil
	})
}

// nodeList reads NUMA node IDs: one number, or a range like "2-33".
func (p *parser) nodeList(into *[]int) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		if s == "-1" {
			*into = nil
			return nil
		}
		set, err := parseList(s, maxNUMANode)
		if err != nil {
			return err
		}
		*into = set.List()
		return nil
	})
}

var listPattern = regexp.MustCompile(`^(\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*)?$`)

// parseList reads the kernel's list form, such as "0-55,112-167", bounded
// before it is expanded.
func parseList(s string, highest int) (cpuset.CPUSet, error) {
	want := fmt.Errorf("want a list of numbers up to %d, such as 0-55,112-167", highest)
	if !listPattern.MatchString(s) {
		return cpuset.New(), want
	}
	for _, number := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '-' }) {
		if v, err := strconv.Atoi(number); err != nil || v > highest {
			return cpuset.New(), want
		}
	}
	set, err := cpuset.Parse(s)
	if err != nil {
		return cpuset.New(), want
	}
	return set, nil
}
