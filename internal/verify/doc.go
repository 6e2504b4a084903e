// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verify answers two questions of running pods, by what the kernel says of
// them and not by what is published: are they as their claims say, and are
// their components as near to each other as the machine could have given them.
//
//	claims, slices ─► expect ──┐
//	/proc, /sys ────► collect ─┼─► evaluate ─► Result ─► Report
//	machine ────────► nearest ─┘
//
// Here live the check of all pods of a node together, and the form a report has
// outside the program. When pods are checked, and where the verdict goes, the
// agent and the command line decide.
package verify
