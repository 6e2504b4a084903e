// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newBenchImage packs what plumbline bench runs.
func newBenchImage(g *global) *cobra.Command {
	var file, reference string
	cmd := &cobra.Command{
		Use:   "bench-image",
		Short: "Pack the tools that plumbline bench runs into an image",
		Long: `bench-image unpacks Debian's perftest, iperf3, Open MPI and OpenSSH, compiles the lab's
program that adds up, and packs them into an archive that "docker load" and "ctr images
import" read. It needs neither root nor a container engine.`,
		Example: `  plumblab bench-image --reference registry.example/bench:latest --out out/bench-image.tar`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			builder, err := g.artifactBuilder(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			if err := builder.BenchImage(cmd.Context(), file, reference); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has %s: \"docker load -i %[1]s\"\n", file, reference)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "out", "out/bench-image.tar", "the archive that is written")
	cmd.Flags().StringVar(&reference, "reference", "plumbline.dev/lab/bench:latest", "what the image is called")
	return cmd
}
