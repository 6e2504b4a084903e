// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/hostnode"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/vm"
)

// HostNodeName is the node on this host's own processors, and what stands for
// its hardware where a machine's name would.
const HostNodeName = "host"

// StandIns are the virtual links that a node on this host has for NICs.
var StandIns = []string{"nic0", "nic1", "nic2", "nic3", "nic4", "nic5", "nic6", "nic7"}

// hostNode is the cluster's node on this host, running or not.
func (c *Cluster) hostNode() *hostnode.Node { return hostnode.Open(filepath.Join(c.dir, "host-node")) }

// onHost says whether the cluster's node runs on this host.
func (c *Cluster) onHost() (bool, error) { return c.hostNode().Running() }

// startHostNode starts the node, unless it runs, and waits for it to join. One that
// runs is given what is new of the images.
func (c *Cluster) startHostNode(ctx context.Context, b *ArtifactBuilder, artifacts *Artifacts, cp *controlplane.ControlPlane, o Options) error {
	running, err := c.onHost()
	if err != nil {
		return err
	}
	task := b.progress.Start("node " + HostNodeName)
	if !running {
		err = c.makeHostNode(ctx, artifacts, cp, o)
	}
	if err == nil {
		joining, cancel := context.WithTimeout(ctx, hostPatience)
		defer cancel()
		err = c.join(joining, cp, cloud{node: HostNodeName})
	}
	if err != nil {
		task.Fail()
		return err
	}
	task.Done("ready")
	if !running {
		return nil
	}
	return c.reload(ctx, b, artifacts.Images)
}

// hostPatience is how long a node on this host may take to be Ready. It needs a
// tenth.
const hostPatience = 3 * time.Minute

func (c *Cluster) makeHostNode(ctx context.Context, artifacts *Artifacts, cp *controlplane.ControlPlane, o Options) error {
	facts, err := o.machine()
	if err != nil {
		return err
	}
	config, err := c.hostNodeConfig(artifacts, cp, o)
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(c.hardwareFile(), []byte(o.hardware(facts)), 0o644),
		c.noteImages(artifacts.Images),
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	_, err = hostnode.Start(ctx, config)
	return err
}

func (c *Cluster) hostNodeConfig(artifacts *Artifacts, cp *controlplane.ControlPlane, o Options) (hostnode.Config, error) {
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		return hostnode.Config{}, err
	}
	kubeconfig, ca, err := cp.NodeCredentials(HostNodeName)
	if err != nil {
		return hostnode.Config{}, err
	}
	files, services, err := node.Guest(node.GuestConfig{
		Name: HostNodeName, Labels: map[string]string{realLabel: "true"}, OnHost: true,
		Hyperkube: artifacts.Hyperkube, Runc: artifacts.Runc, Containerd: artifacts.Containerd, CNI: artifacts.CNI,
		Images: artifacts.Images, Sandbox: image.Pause, DNS: o.DNS,
		Kubeconfig: kubeconfig, ClientCA: ca, KubeletPort: ports[0],
	})
	if err != nil {
		return hostnode.Config{}, err
	}
	tools, err := node.HostTools(artifacts.HostTools)
	if err != nil {
		return hostnode.Config{}, err
	}
	files.Add(vm.Userland(HostNodeName, artifacts.Busybox, artifacts.Applets))
	files.Add(tools)
	program, err := os.Executable()
	if err != nil {
		return hostnode.Config{}, fmt.Errorf("find plumblab: %w", err)
	}
	return hostnode.Config{
		Program: program, Dir: filepath.Join(c.dir, "host-node"), Files: files,
		Plan: hostnode.Plan{
			Name: HostNodeName, Group: "plumblab-" + c.name, StandIns: StandIns,
			APIPort: cp.Port(), KubeletPort: ports[0], Services: services,
		},
	}, nil
}

// runOnHost runs one program in the node on this host and returns its exit
// code.
func (c *Cluster) runOnHost(ctx context.Context, argv []string, in io.Reader, out, errOut io.Writer) (int, error) {
	return c.hostNode().Run(ctx, argv, in, out, errOut)
}

// PutOnHost puts a program where the node on this host finds it, and returns its
// path there.
func (c *Cluster) PutOnHost(program string) (string, error) { return c.hostNode().Put(program) }

// ListenOnHost listens in the network of the node on this host.
func (c *Cluster) ListenOnHost(network, address string) (net.Listener, error) {
	return c.hostNode().Listen(network, address)
}

// LinksOnHost are the links of the node on this host.
func (c *Cluster) LinksOnHost() ([]string, error) { return c.hostNode().Links() }

// ResetStandIns is a script that gives the stand-ins what the node was made with,
// where they lack it.
func ResetStandIns() string { return hostnode.ResetScript(StandIns) }
