// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nearest says how near to each other the things of a pod are, and how
// near the machine could have given as many of their make: other GPUs, other NICs,
// CPUs of another NUMA node.
//
//	nearest.go   the pairs that are compared, and the answer
//	placement.go other devices and CPUs that the pod could have had
//
// Whoever holds a device now, it is the machine's to give: the question is what
// the machine can do, not what was free. An answer is of one placement of all
// things together, so that GPUs on one NUMA node and NICs on the other are not
// blamed for CPUs that can be beside one of them alone.
package nearest
