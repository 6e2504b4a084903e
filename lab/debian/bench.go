// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import "context"

// benchPackages have the tools that plumbline bench runs, and the small programs that it calls
// beside them.
var benchPackages = []string{
	"iperf3", "perftest", "ibverbs-providers", "openmpi-bin", "openssh-server", "openssh-client", "bash", "coreutils", "util-linux",
}

// Bench returns a folder with the tools that plumbline bench runs, unpacked with all that they
// are linked against.
func (a *Archive) Bench(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{Name: "bench", Title: "tools of plumbline bench (unpacked)", Packages: benchPackages})
}

// Training is Bench with PyTorch for CPUs, which adds up by gloo, and a BLAS that uses all of a
// CPU: a gigabyte.
func (a *Archive) Training(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{
		Name: "training", Title: "PyTorch for CPUs (unpacked)",
		Packages: append([]string{"python3-torch", "python3-numpy", "libopenblas0-pthread"}, benchPackages...),
	})
}
