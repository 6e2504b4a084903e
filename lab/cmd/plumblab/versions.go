// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/build"
)

// versionFlags choose what plumbline runs on.
func versionFlags(cmd *cobra.Command, v *build.Versions) {
	cmd.Flags().Var(series{&v.Kubernetes, build.Kubernetes}, "kubernetes", usage("of control plane and kubelet", build.Kubernetes))
	cmd.Flags().Var(series{&v.Containerd, build.Containerd}, "containerd", usage("of the node's container runtime", build.Containerd))
}

func usage(whose string, all build.Releases) string {
	return fmt.Sprintf("`VERSION` %s: %s (default %s)", whose, all, all[0].Series())
}

// series is a flag that takes the first two numbers of a release that the lab has.
type series struct {
	chosen *string
	all    build.Releases
}

// Set refuses what the lab does not have, before anything is built.
func (s series) Set(text string) error {
	if _, err := s.all.Find(text); err != nil {
		return err
	}
	*s.chosen = text
	return nil
}

// String is what was chosen.
func (s series) String() string { return *s.chosen }

// Type says in usage what the flag takes.
func (s series) Type() string { return "version" }
