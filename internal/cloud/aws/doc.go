// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package aws asks the metadata service of an EC2 instance, in its version 2, and
// knows which EFA adapters lie beside which Neuron accelerators. What the answers
// mean, and how they are spelled in a ResourceSlice, lives here; when they are
// asked for does not.
package aws
