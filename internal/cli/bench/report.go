// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// newReport shows reports that were kept.
func newReport() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "report A.json [B.json]",
		Short: "Show a report that was kept, or one beside another",
		Long: `Show a report that a measurement wrote with -o json. Its verdict is drawn again from its
runs, and must come out the same. Of two reports the ratios are compared: each was measured
by turns, and their medians were not.

` + codes(),
		Example: `  # what did it say?
  {{program}} bench report before.json

  # has the new kernel changed it?
  {{program}} bench report before.json after.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cmdutil.Usagef("%d files: want one report, or two", len(args))
			}
			if err := cmdutil.CheckFormat(o.output); err != nil {
				return err
			}
			if len(args) == 2 && (o.output != "text" || o.picture != "") {
				return cmdutil.Usagef("--output and --svg are of one report: want one file with them")
			}
			var reports []*report.Report
			for _, name := range args {
				r, err := read(name)
				if err != nil {
					return coded(cmd, err)
				}
				reports = append(reports, r)
			}
			if len(reports) == 2 {
				return coded(cmd, report.WriteComparison(cmd.OutOrStdout(), reports[0], reports[1]))
			}
			return o.write(cmd, reports[0])
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "output format of one report: text, json or yaml")
	cmd.Flags().StringVar(&o.picture, "svg", "", "write a picture of one report to this file too")
	return cmd
}

func read(name string) (*report.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	defer f.Close()
	r, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return r, nil
}
