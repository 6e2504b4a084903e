// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package falsepositive runs short pods of many kinds while the agent verifies
// running pods against the kernel, and counts the alarms. None of these pods is ever
// misaligned, so every alarm is a false positive. The soak test uses its Watcher on
// pods under faults.
package falsepositive
