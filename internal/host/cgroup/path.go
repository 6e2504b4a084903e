// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"strings"
)

// expand turns a runtime's path into directories. The cgroupfs driver says
// /kubepods/burstable/pod1/abc; the systemd driver says slice:prefix:name, where
// a slice a-b.slice lies in a.slice, and the container is prefix-name.scope
// (systemd.slice(5)).
func expand(runtimePath string) (string, error) {
	path := strings.Trim(runtimePath, "/")
	if strings.Count(path, ":") == 2 {
		part := strings.Split(path, ":")
		slice, err := expandSlice(part[0])
		if err != nil {
			return "", err
		}
		if part[2] == "" {
			return "", errors.New("names no unit: want slice:prefix:name")
		}
		unit := part[2]
		if !strings.HasSuffix(unit, ".slice") {
			unit = strings.TrimPrefix(part[1]+"-"+unit, "-") + ".scope"
		}
		path = join(slice, unit)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." || path != "" && part == "" {
			return "", errors.New("want a path without empty parts and without . or .. in it")
		}
	}
	return path, nil
}

// expandSlice turns a-b.slice into a.slice/a-b.slice.
func expandSlice(slice string) (string, error) {
	if slice == "" || slice == "-.slice" {
		return "", nil
	}
	name, ok := strings.CutSuffix(slice, ".slice")
	if !ok || strings.Contains(name, "/") {
		return "", fmt.Errorf("slice %q: want a name that ends in .slice", slice)
	}
	var parts []string
	for i, part := range strings.Split(name, "-") {
		if part == "" {
			return "", fmt.Errorf("slice %q: want words with single hyphens between", slice)
		}
		if i > 0 {
			part = strings.TrimSuffix(parts[i-1], ".slice") + "-" + part
		}
		parts = append(parts, part+".slice")
	}
	return strings.Join(parts, "/"), nil
}
