// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package iperf3 reads what iperf3 -J prints on the client's side (3.12 and 3.18, Debian's).
// It does not run it.
//
// What counts is what the receiver got: what a sender wrote may still lie in a buffer when
// the time is over.
package iperf3
