// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nvbandwidth reads what NVIDIA's nvbandwidth (v0.5 and newer) prints, as text and
// with -j: a matrix for each test that ran. It does not run it.
//
// A figure is a cell of a matrix. What nvbandwidth calls SUM adds the cells of all GPUs that
// it sees, so it is read only to see that no row is lost. For host_device_latency_sm, -i and
// -m change nothing: one run of the program is one sample.
package nvbandwidth
