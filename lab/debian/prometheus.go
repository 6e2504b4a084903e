// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import "context"

// PrometheusSet is Prometheus and its checker of rules. Both are linked against nothing
// but the C library, which the host has.
func PrometheusSet() Set {
	return Set{Name: "prometheus", Title: "Prometheus (unpacked, not installed)", Packages: []string{"prometheus"}, Alone: true}
}

// Prometheus returns the program of Debian's Prometheus.
func (a *Archive) Prometheus(ctx context.Context) (string, error) {
	root, err := a.Fetch(ctx, PrometheusSet())
	if err != nil {
		return "", err
	}
	return match(root, "usr/bin/prometheus")
}
