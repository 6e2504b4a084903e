// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import "context"

// Iperf3 returns a folder with iperf3 and the libraries it is linked against, unpacked.
func (a *Archive) Iperf3(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{Name: "iperf3", Title: "iperf3 (unpacked)", Packages: []string{"iperf3"}})
}
