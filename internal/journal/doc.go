// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the records of prepared claims on disk, so that what
// was done to the host can be undone by whoever comes next: the same agent
// after a crash, or the next version of it.
//
//	<dir>/<driver>/<claimUID>.json   one record
//	<dir>/<driver>/<claimUID>.tmp    a write that has not finished
//	<dir>/<driver>.lock              every lock of the driver, never unlinked
//
// A record is complete or it is not there: it is written aside, synced, renamed
// and the directory synced. One unreadable file never hides the others.
//
// What a record means belongs to the drivers; nothing here touches the host's
// devices or the cluster.
package journal
