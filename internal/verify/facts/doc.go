// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package facts is what the kernel says of running pods: their network
// interfaces, device files, CPUs, memory and threads, read from the host's /proc
// and /sys and from the containers' own mounts of them.
//
//	scan.go      which processes belong to which container
//	container.go processes, where they may run, where their threads ran
//	inside.go    paths inside a container, which no link leads out of
//	network.go   interfaces of the pod's network namespace
//	devices.go   device files, and the PCI functions behind them
//	cgroup.go    what the container's control group grants
//	interrupts.go where a NIC's interrupts are handled
//
// Nothing is written, entered or signalled: it takes the capability SYS_PTRACE,
// which the kernel wants for /proc/PID/root, and no other. Nothing here asks
// plumbline, a driver or the API server. What cannot be read is an error in the
// facts and never an empty fact: a pod may end at any moment, and a container may
// hide what it likes. What the facts mean is judged elsewhere.
package facts
