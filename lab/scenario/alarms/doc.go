// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package alarms puts short pods of many kinds through their lives while the
// agent compares running pods with what the kernel says, and counts the alarms.
// No pod of these is ever misaligned, so every alarm is a false one. Its Watcher
// also hears what is said of pods that others put through faults.
package alarms
