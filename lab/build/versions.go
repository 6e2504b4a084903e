// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Versions choose among the releases that the lab has of what users run plumbline with,
// by their first two numbers: "1.36". An empty one is the newest.
type Versions struct {
	// Kubernetes is that of control plane, kubelet and kubectl.
	Kubernetes string
	// Containerd is that of the node.
	Containerd string
}

// String writes the versions as they would be chosen.
func (v Versions) String() string {
	return fmt.Sprintf("Kubernetes %s and containerd %s",
		cmp.Or(v.Kubernetes, Kubernetes[0].Series()), cmp.Or(v.Containerd, Containerd[0].Series()))
}

// Check says whether the lab has what is chosen.
func (v Versions) Check() error {
	_, kubernetes := v.kubernetes()
	_, containerd := v.containerd()
	return errors.Join(kubernetes, containerd)
}

func (v Versions) kubernetes() (Release, error) {
	release, err := Kubernetes.Find(v.Kubernetes)
	if err != nil {
		return "", fmt.Errorf("choose Kubernetes %q: %w", v.Kubernetes, err)
	}
	return release, nil
}

func (v Versions) containerd() (Release, error) {
	release, err := Containerd.Find(v.Containerd)
	if err != nil {
		return "", fmt.Errorf("choose containerd %q: %w", v.Containerd, err)
	}
	return release, nil
}

// Release is a version that a module beside this file pins, such as "v1.36.4".
type Release string

// Series is what a person says of a release: "1.36".
func (r Release) Series() string {
	numbers := strings.SplitN(strings.TrimPrefix(string(r), "v"), ".", 3)
	return strings.Join(numbers[:2], ".")
}

// Releases are those of one program, the newest first. The program's folder has the
// modules of them all: the newest one's is go.mod, another's is called by its series,
// as in 1.36.mod, with its sums beside it. So they share the rest of the folder.
type Releases []Release

// Find returns the release of a series, or says which there are.
func (r Releases) Find(series string) (Release, error) {
	i := slices.IndexFunc(r, func(one Release) bool { return one.Series() == series })
	switch {
	case series == "":
		return r[0], nil
	case i < 0:
		return "", fmt.Errorf("want %s", r)
	}
	return r[i], nil
}

// moduleFile is the file that pins a release, "" for go.mod.
func (r Releases) moduleFile(one Release) string {
	if one == r[0] {
		return ""
	}
	return one.Series() + moduleSuffix
}

// String lists the series, as in "1.37, 1.36 or 1.34".
func (r Releases) String() string {
	var all []string
	for _, one := range r {
		all = append(all, one.Series())
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// Ends of the names of files with a module's requirements and their sums.
const (
	moduleSuffix = ".mod"
	sumSuffix    = ".sum"
)
