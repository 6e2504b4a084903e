// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// maxID bounds CPUs and memory nodes: beyond any kernel's NR_CPUS, small enough
// that a nonsense list costs nothing.
const maxID = 1 << 16

var errList = errors.New("want ordered ranges of numbers below 65536, such as 2-5,8")

// ParseList reads the kernel's lists of CPUs and memory nodes, such as
// "2-5,8". Empty text is the empty set.
func ParseList(text string) (cpuset.CPUSet, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return cpuset.New(), nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, errFrom := strconv.ParseUint(low, 10, 16)
		to, errTo := strconv.ParseUint(high, 10, 16)
		if errFrom != nil || errTo != nil || from > to || to >= maxID {
			return cpuset.New(), errList
		}
	}
	return cpuset.Parse(text)
}
