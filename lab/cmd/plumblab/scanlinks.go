// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
)

const scanLinksCommand = "scan-links"

// newScanLinks is what bench starts on a node, as lab/build/dranet/dranet-scan is
// of the driver beside it; people have no use for it.
func newScanLinks() *cobra.Command {
	return &cobra.Command{
		Use:    scanLinksCommand + " LOOKS",
		Short:  "Look at this machine as the agent does, and print the milliseconds of each look",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			looks, err := strconv.Atoi(args[0])
			if err != nil || looks < 1 {
				return fmt.Errorf("%q: want the number of looks", args[0])
			}
			return scanLinks(cmd.Context(), looks, cmd.OutOrStdout())
		},
	}
}

func scanLinks(ctx context.Context, looks int, out io.Writer) (err error) {
	for range looks {
		start := time.Now() // sockets and folders included, as beside it
		if err := scanOnce(ctx); err != nil {
			return err
		}
		fmt.Fprintf(out, "%.3f\n", ms(time.Since(start)))
	}
	return nil
}

func scanOnce(ctx context.Context) (err error) {
	sys, err := sysfs.Open("/sys")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	links, err := inventory.OpenNetlink(netns.Current, nil)
	if err != nil {
		return err
	}
	defer links.Close()
	_, _, err = inventory.Scan(ctx, inventory.Sources{Sys: sys, Links: links}, inventory.Options{})
	return err
}
