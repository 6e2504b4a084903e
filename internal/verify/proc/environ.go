// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"

	"k8s.io/utils/cpuset"
)

// granted is what drivers of dra.cpu tell a container: DRA_CPUSET_<claimUID>.
const granted = "DRA_CPUSET_"

// maxClaims bounds how many claims a container is told of.
const maxClaims = 64

// GrantedCPUs reads from /proc/PID/environ which CPUs the driver told the
// container, by claim UID. Everything else of the environment, secrets among
// it, is passed over. What stands there is the container's word: a process can
// write over its own environment.
func GrantedCPUs(environ []byte) (map[string]cpuset.CPUSet, error) {
	var told map[string]cpuset.CPUSet
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		rest, ok := bytes.CutPrefix(entry, []byte(granted))
		if !ok {
			continue
		}
		uid, list, ok := bytes.Cut(rest, []byte("="))
		if !ok || len(told) == maxClaims {
			return nil, fmt.Errorf("environment: want %sUID=LIST, for %d claims at most", granted, maxClaims)
		}
		set, err := ParseList(string(list))
		if err != nil {
			return nil, fmt.Errorf("environment: %s%.40q: %w", granted, uid, err)
		}
		if told == nil {
			told = map[string]cpuset.CPUSet{}
		}
		told[string(uid)] = set
	}
	return told, nil
}
