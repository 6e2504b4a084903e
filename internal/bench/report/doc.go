// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package report is what a measurement comes to, as it is kept and shown: every run, what it
// ran on, and the verdict. A report says nothing of an environment, whose variables may hold
// secrets.
//
//	report.go  the form that is kept, which only grows within a schema
//	text.go    for people
//	compare.go one report beside another
//	svg.go     a picture of the turns
package report
