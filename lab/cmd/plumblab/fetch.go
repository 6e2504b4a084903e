// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/debian"
	"plumbline.dev/plumbline/lab/progress"
)

// fetchable are the sets of Debian packages that tests and benchmarks use
// beside those the cluster is made of.
var fetchable = map[string]debian.Set{
	"hwloc":      {Name: "hwloc", Title: "hwloc (unpacked, not installed)", Packages: []string{"hwloc-nox"}},
	"prometheus": debian.PrometheusSet(),
}

func newFetch(g *global) *cobra.Command {
	names := slices.Sorted(maps.Keys(fetchable))
	return &cobra.Command{
		Use:       "fetch " + strings.Join(names, "|"),
		Short:     "Unpack a tool that tests use into the cache and print its folder",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cache.Open(g.cache)
			if err != nil {
				return err
			}
			archive, err := debian.Open(c, progress.New(cmd.ErrOrStderr(), isTerminal(os.Stderr), time.Now))
			if err != nil {
				return err
			}
			dir, err := archive.Fetch(cmd.Context(), fetchable[args[0]])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
}
