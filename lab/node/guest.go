// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// GuestIP is the address QEMU's user-mode network gives to a guest.
const GuestIP = "10.0.2.15"

// ClusterDomain ends the names of a cluster's Services.
const ClusterDomain = "cluster.local"

// podSubnet is the network of a guest's pods.
const podSubnet = "10.88.0.0/24"

// Places of a guest's software.
const (
	programDir = "/usr/bin"
	cniDir     = "/opt/cni/bin"
	imagesDir  = "/usr/share/plumblab/images"
	configDir  = "/etc/kubernetes"
	criSocket  = "/run/containerd/containerd.sock"
	nriSocket  = "/var/run/nri/nri.sock"
)

// GuestConfig is what a guest's node is made from.
type GuestConfig struct {
	// Name is the node's name, Labels its labels.
	Name   string
	Labels map[string]string
	// OnHost says that the node has no kernel of its own: its control groups may
	// be of version 1, and this machine's limits are its limits.
	OnHost bool
	// Hyperkube and Runc are programs of the host, Containerd and CNI
	// folders of programs.
	Hyperkube, Runc, Containerd, CNI string
	// Images are archives of container images.
	Images []string
	// DNS says that a server at the node's address answers pods' questions for names.
	DNS bool
	// Sandbox is the image of pods' sandboxes, one of Images.
	Sandbox string
	// Kubeconfig and ClientCA let the kubelet join.
	Kubeconfig, ClientCA []byte
	// KubeletPort is the same in the guest and on the host's loopback: the
	// node tells the API server one port for all of its addresses.
	KubeletPort int
}

// Guest returns the software of a virtual machine's node: its files, and what
// runs there from boot on. The paths are the usual ones, because what is
// installed on a node expects them.
func Guest(c GuestConfig) (initramfs.Files, []guest.Service, error) {
	var dns string
	if c.DNS {
		dns = GuestIP
	}
	kubeletText, err := KubeletConfig{
		Port: c.KubeletPort, ClientCA: configDir + "/ca.crt",
		ContainerdSocket: criSocket, PodLogs: "/var/log/pods", OnHost: c.OnHost, DNS: dns,
	}.Text()
	if err != nil {
		return nil, nil, err
	}
	containerd := ContainerdConfig{
		Root: "/var/lib/containerd", State: "/run/containerd", Socket: criSocket,
		NRISocket: nriSocket, CDI: []string{"/etc/cdi", "/var/run/cdi"},
		CNIPrograms: cniDir, CNIConfig: "/etc/cni/net.d",
		Runc: programDir + "/runc", Sandbox: c.Sandbox, OnHost: c.OnHost,
	}
	files := initramfs.Files{
		"/etc/containerd/config.toml":     {Content: containerd.Text()},
		"/etc/cni/net.d/10-lab.conflist":  {Content: CNIConflist(podSubnet)},
		configDir + "/kubelet.yaml":       {Content: kubeletText},
		configDir + "/kubelet.kubeconfig": {Content: c.Kubeconfig, Mode: 0o600},
		configDir + "/ca.crt":             {Content: c.ClientCA},
		programDir + "/hyperkube":         program(c.Hyperkube),
		programDir + "/runc":              program(c.Runc),
	}
	for _, archive := range c.Images {
		files[path.Join(imagesDir, path.Base(archive))] = initramfs.File{Source: archive}
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		files[path.Join(programDir, name)] = program(path.Join(c.Containerd, name))
	}
	for _, name := range []string{"ptp", "loopback", "host-local"} {
		files[path.Join(cniDir, name)] = program(path.Join(c.CNI, name))
	}
	return files, services(c), nil
}

// RDMAKeeper is the service that makes the RDMA device of a NIC again in the pod that
// was given the NIC, as real hardware keeps its own.
func RDMAKeeper() guest.Service {
	return guest.Service{Name: "rdma-keeper", After: nriSocket, Argv: []string{"/init", "keep-pods-rdma"}}
}

func program(source string) initramfs.File { return initramfs.File{Source: source, Mode: 0o755} }

func services(c GuestConfig) []guest.Service {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		labels = append(labels, name+"="+c.Labels[name])
	}
	return []guest.Service{
		{Name: "containerd", Argv: []string{programDir + "/containerd"}},
		{
			Name: "kubelet", After: criSocket,
			Argv: []string{
				programDir + "/hyperkube", "kubelet",
				"--config=" + configDir + "/kubelet.yaml",
				"--kubeconfig=" + configDir + "/kubelet.kubeconfig",
				"--hostname-override=" + c.Name,
				"--node-ip=" + GuestIP,
				fmt.Sprintf("--node-labels=%s", strings.Join(labels, ",")),
				// The lab is the node's cloud: it tells the API server
				// under which address the guest is reached.
				"--cloud-provider=external",
			},
		},
		{
			// Beside the kubelet: no pod comes before the node is ready.
			Name: "images", After: criSocket, Once: true,
			Argv: []string{"/bin/sh", "-ec", "for archive in " + imagesDir + "/*; do ctr --namespace k8s.io images import $archive; done"},
		},
	}
}
