// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package collect reads what the kernel says of running pods: their network
// interfaces, device files, CPUs, memory and threads, read from the host's /proc
// and /sys and from the containers' own mounts of them; and by rtnetlink of their
// virtual functions, where this program is in the host's network namespace.
//
//	pod.go        the form of what was observed
//	reader.go     one scan of many pods
//	processes.go  which processes belong to which container
//	container.go  processes, where they may run, where their threads ran
//	unanswered.go reads of a pod's own files, which may never be answered
//	view.go       what is read through a container itself
//	inside.go     paths inside a container, which no link leads out of
//	network.go    interfaces of the pod's network namespace
//	rdma.go       RDMA devices that the pod sees, and what its containers may do with them
//	one_mount.go  a container's directory without what is mounted below it
//	vf.go         what physical functions tell of virtual ones
//	devices.go    device files, and the PCI functions behind them
//	cgroup.go     what the container's control group grants
//	interrupts.go where a NIC's interrupts are handled
//
// Nothing is written, entered or signalled: it takes the capability SYS_PTRACE,
// which the kernel requires for /proc/PID/root, and no other. Nothing here reads from
// plumbline, a driver or the API server. What cannot be read is an error in the
// observation and never an empty one: a pod may end at any moment, and a container may
// hide what it likes.
//
// A pod may also block its reader for ever: behind a file system of its own
// (FUSE), a server that is gone (NFS), a mapping of either in its memory. So mounts
// that the kernel does not serve by itself are not entered, nothing of a pod's is
// opened but directories, and all of it is read in a goroutine of its own, which the
// Reader gives up after a while. What it means is for package evaluate.
package collect
