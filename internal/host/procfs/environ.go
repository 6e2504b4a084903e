// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"fmt"

	"k8s.io/utils/cpuset"
)

// grantedPrefix begins the variables by which drivers of dra.cpu pass a claim's CPUs
// to a container: DRA_CPUSET_<claimUID>.
const grantedPrefix = "DRA_CPUSET_"

// maxClaims bounds how many such variables a container may have.
const maxClaims = 64

// GrantedCPUs reads from /proc/PID/environ which CPUs the driver passed to the
// container, by claim UID. Everything else of the environment, which may hold secrets,
// is skipped. The result is not to be trusted: a process can overwrite its own
// environment.
func GrantedCPUs(environ []byte) (map[string]cpuset.CPUSet, error) {
	var granted map[string]cpuset.CPUSet
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		rest, ok := bytes.CutPrefix(entry, []byte(grantedPrefix))
		if !ok {
			continue
		}
		uid, list, ok := bytes.Cut(rest, []byte("="))
		if !ok || len(granted) == maxClaims {
			return nil, fmt.Errorf("environment: want %sUID=LIST, for %d claims at most", grantedPrefix, maxClaims)
		}
		set, err := ParseList(string(list))
		if err != nil {
			return nil, fmt.Errorf("environment: %s%.40q: %w", grantedPrefix, uid, err)
		}
		if granted == nil {
			granted = map[string]cpuset.CPUSet{}
		}
		granted[string(uid)] = set
	}
	return granted, nil
}
