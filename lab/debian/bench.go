// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import "context"

// Bench returns a folder with the tools that plumbline bench runs, unpacked with all that they
// are linked against, and the small programs that it calls beside them.
func (a *Archive) Bench(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{
		Name: "bench", Title: "tools of plumbline bench (unpacked)",
		Packages: []string{
			"iperf3", "perftest", "ibverbs-providers", "openmpi-bin", "openssh-server", "openssh-client", "bash", "coreutils", "util-linux",
		},
	})
}
