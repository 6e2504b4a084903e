// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package devicemetadata keeps the files by which a container reads what it was given
// (KEP-5304): for each request of a claim one, with the devices' attributes and what is
// known of a NIC inside the pod. Layout, types and versions are those of
// k8s.io/dynamic-resource-allocation/api/metadata, so that its decoder reads them.
//
// The files are written here and not by the kubeletplugin helper, which does so only
// while a driver is registered: pods start before that, and claims end without it. They
// are as old as the journal's record of the claim, and the claim's own CDI file mounts
// them. What is told is decided by the drivers, and when by the agent.
//
// The files have the SELinux type of their directory, in containers, too: containerd gives
// volumes the container's own where the CRI asks for it (internal/cri/opts/spec_linux_opts.go,
// WithMounts), and no mount of CDI. Of files for all containers, container_t reads those of
// container_ro_file_t (container-selinux, container.te, container_read_share_files for
// container_domain); /var/lib/plumbline has no rule in container.fc: docs/support.md says how
// an administrator adds one.
package devicemetadata
