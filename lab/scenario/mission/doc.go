// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package mission types the commands of the mission's documents. The table of
// examples/mission.yaml has each of them as it is printed, what the document prints of it,
// and how that is judged; a row that cannot be as printed here declares a deviation. This
// package reads the table, makes docs/mission.md of it, and runs its rows by a shell.
//
// A difference that is not declared is wrong, and so is a declared one that is none. No
// document, command or object is known here by its name: all of that is the table's.
package mission
