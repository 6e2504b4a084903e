// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package pinning runs pods with and without exclusive CPUs on the lab's cluster and
// asks the kernel where they run: while claims come and go, while a container is
// resized, while the agent is killed and containerd restarted.
//
// There are three sources, none of which is plumbline: what a container reads of
// itself, again and again, printed into its own log; /proc/PID/status on the node;
// and the CPU on which a busy loop last ran (/proc/PID/stat, field 39), sampled all
// the while.
package pinning
