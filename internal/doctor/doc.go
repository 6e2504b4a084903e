// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor checks whether a host is ready for pods with GPUs and NICs on one
// PCIe root: kernel modules, PCIe links and their settings, RDMA devices and ports,
// interfaces, the container runtime and the kubelet. It reads files of /sys, /proc, /etc,
// /boot, /dev, /run and /var/lib/kubelet, and the kernel's log where it is given that, and
// nothing else; it changes nothing, and knows no cluster.
//
// Each check says what is so, from which file, and where that is not right, what would
// be and how to get there. What cannot be read is neither right nor wrong.
//
//	report.go        what findings come to in a HostReport
//	host.go          a host's files and devices
//	checks.go        the checks, in order
//	profile.go       what hosts of one kind are compared by
//	fields.go        a profile field by field, and what each field means
//	expect.go        a host against the profile that it should have
//	peers.go         hosts of one kind against each other
//	profile_file.go  profiles as files
//	modules.go, gpus.go, pcie.go, data_direct.go, rdma.go, qos.go, interfaces.go, memory.go,
//	runtime.go, kernel_log.go, reload.go: what they look at
package doctor
