// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cgroup reads and writes where the tasks of a control group may run:
// its CPUs and memory nodes (cpuset), and its share of CPU time (cfs quota), in
// version 1 and 2 alike
// (Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst).
//
//	hierarchy.go  the mounted file systems, and a runtime's path to a group,
//	              as directories
//	files.go      one file of the kernel's, read or written
//	cpuset.go     CPUs and memory nodes
//	ancestors.go  what the groups around one allow
//	quota.go      CPU time
//
// Nothing here makes or removes a group: those belong to the kubelet and to the
// container runtime. Which CPUs a container gets is the drivers' business.
package cgroup
