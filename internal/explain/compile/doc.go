// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package compile makes a problem for the solver of claims and a node: which
// device fits which request, and why the others do not. Selectors are evaluated
// by the scheduler's own library; what fits together is the solver's.
package compile
