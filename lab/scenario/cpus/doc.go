// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cpus runs pods with and without CPUs of their own on the lab's cluster
// and asks the kernel where they are: while claims come and go, while somebody
// updates a container, while the agent is killed and containerd restarted.
//
// Three witnesses, none of which is plumbline: what a container reads of itself,
// again and again, printed into its own log; /proc/PID/status on the node; and
// the CPU on which a busy loop was last seen to run (/proc/PID/stat, field 39),
// sampled all the while.
package cpus
