// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
)

// subnet is of the addresses that the measured pods' NICs have.
const subnet = "10.99.0.0/24"

// bench has plumbline bench compare CPUs near the NICs with far ones, with few and short turns:
// that each run was as planned is what counts here. Where the lab's device is not made in a
// pod, bench finds no RDMA device there, and is tried again (see began).
func (r *run) bench(ctx context.Context, before string) error {
	command := []string{
		"bench", plan.RDMALatency, "-n", namespace, "--node", r.Node, "--image", r.Image, "--addresses", subnet,
		"--variable", "cpus", "--cpus", "1", "--pairs", "5", "--iterations", "100", "--patience", patience.String(), "-o", "json",
	}
	for try := 1; ; try++ {
		answer, err := r.Plumbline.Run(ctx, command...)
		if err != nil {
			return err
		}
		if answer.Code != 0 {
			if try < tries {
				fmt.Fprintf(r.Out, "  plumbline bench %s, try %d: %s\n", plan.RDMALatency, try, answer.Ending())
				continue
			}
			r.report.Finding(false, "plumbline bench "+plan.RDMALatency, "%s", answer.Ending())
			return nil
		}
		measured, err := report.Read(strings.NewReader(answer.Out))
		if err != nil {
			return err
		}
		for _, run := range measured.Runs {
			if run.ThrownOut != "" {
				fmt.Fprintf(r.Out, "  thrown out: %s\n", run.ThrownOut)
			}
		}
		r.report.Finding(measured.ThrownOut == 0, "plumbline bench "+plan.RDMALatency, "emulated, try %d: all %d runs as planned: %s", try, len(measured.Runs), measured.Sentence())
		return r.returned(ctx, before)
	}
}
