// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster puts the lab together: it builds the artifacts, starts control
// plane and node, installs plumbline, and takes everything down again. Each of
// these lives in a package of its own; the order they come in lives here.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/metadata"
	"plumbline.dev/plumbline/lab/prometheus"
)

// Cluster is one cluster of the cache, running or not.
type Cluster struct {
	name string
	dir  string
	// lock guards starting and stopping.
	lock string
	// chart is what plumbline was installed from by this Cluster's Up, nvidiaChart what
	// NVIDIA's driver was.
	chart, nvidiaChart string
}

// validName keeps a cluster's name fit for a folder and a host name.
var validName = regexp.MustCompile("^[a-z][a-z0-9-]{0,30}$")

// Open returns the cluster called name. It need not exist.
func Open(c *cache.Cache, name string) (*Cluster, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("cluster name %q: want small letters, digits and dashes, 31 at most, a letter first", name)
	}
	return &Cluster{name: name, dir: c.Cluster(name), lock: c.Cluster(name + ".lock")}, nil
}

// Up brings the cluster to what o asks for. What runs already is left alone.
func (c *Cluster) Up(ctx context.Context, b *ArtifactBuilder, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	unlock, err := cache.Lock(ctx, c.lock)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkVersions(o.Versions); err != nil {
		return err
	}
	if o.NoNode {
		return c.upWithoutNode(ctx, b, o.Versions)
	}
	if o, err = c.asBooted(o); err != nil {
		return err
	}
	machine, err := c.hardware(o)
	if err != nil {
		return err
	}
	artifacts, err := b.forNode(ctx, o)
	if err != nil {
		return err
	}
	cp, err := c.controlPlane(ctx, b, artifacts.Hyperkube, o.Versions)
	if err != nil {
		return err
	}
	if err := c.linkProgram("helm", artifacts.Helm); err != nil {
		return err
	}
	if o.OnHost {
		err = c.startHostNode(ctx, b, artifacts, cp, o)
	} else {
		err = c.node(ctx, b, artifacts, cp, machine, o)
	}
	if err != nil {
		return err
	}
	if err := c.startDNS(ctx, b, cp, o); err != nil {
		return err
	}
	if err := c.simulate(ctx, b, cp, artifacts, o); err != nil || o.NoInstall {
		return err
	}
	if o.metadataPort, err = c.metadata(ctx, machine, o); err != nil {
		return err
	}
	return c.install(ctx, b, artifacts, cp, o, nodeName(machine))
}

// hardware is the machine that the node is to have, which fits the node that runs.
func (c *Cluster) hardware(o Options) (*machine.Facts, error) {
	facts, err := o.machine()
	if err != nil {
		return nil, err
	}
	err = c.checkHardware(o.hardware(facts))
	if !o.OnHost {
		err = errors.Join(err, checkShape(facts, o))
	}
	return facts, err
}

// upWithoutNode starts the control plane only.
func (c *Cluster) upWithoutNode(ctx context.Context, b *ArtifactBuilder, v build.Versions) error {
	hyperkube, err := b.builder.Hyperkube(ctx, v)
	if err != nil {
		return err
	}
	_, err = c.controlPlane(ctx, b, hyperkube, v)
	return err
}

func (c *Cluster) controlPlane(ctx context.Context, b *ArtifactBuilder, hyperkube string, v build.Versions) (*controlplane.ControlPlane, error) {
	// Before anything runs: what runs has its versions on disk.
	if err := c.noteVersions(v); err != nil {
		return nil, err
	}
	task := b.progress.Start("control plane")
	cp, err := controlplane.Up(ctx, controlplane.Config{Hyperkube: hyperkube, Dir: c.dir})
	if err != nil {
		task.Fail()
		return nil, err
	}
	task.Done("ready")
	return cp, c.linkProgram("hyperkube", hyperkube)
}

// linkProgram lets a program be found in the cluster's folder: kubectl and helm must be
// those that the cluster was started with, also later, when no checkout is at hand.
func (c *Cluster) linkProgram(name, program string) error {
	link := filepath.Join(c.dir, name)
	return errors.Join(removeIfThere(link), os.Symlink(program, link))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Down stops everything and removes the cluster's state. Logs stay.
func (c *Cluster) Down(ctx context.Context) error {
	unlock, err := cache.Lock(ctx, c.lock)
	if err != nil {
		return err
	}
	defer unlock()
	// It is in the node's network, which is not gone before it.
	if err := prometheus.Down(ctx, c.dir); err != nil {
		return err
	}
	// The node then: its kubelet would only complain about the rest.
	if err := errors.Join(c.machine().Stop(ctx), c.hostNode().Stop(ctx)); err != nil {
		return err
	}
	if err := metadata.Down(ctx, c.dir); err != nil {
		return err
	}
	if err := controlplane.Down(ctx, c.dir); err != nil {
		return err
	}
	return c.forget()
}

// forget removes what is of no use without the running cluster.
func (c *Cluster) forget() error {
	left, err := filepath.Glob(filepath.Join(c.dir, "vm", "*"))
	if err != nil {
		return err
	}
	left = slices.DeleteFunc(left, func(path string) bool { return strings.HasSuffix(path, ".log") })
	var errs []error
	for _, path := range append(left, c.hardwareFile(), c.versionsFile(), c.imagesFile(), filepath.Join(c.dir, "hyperkube"), filepath.Join(c.dir, "helm")) {
		errs = append(errs, removeIfThere(path))
	}
	return errors.Join(errs...)
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() (string, error) {
	cp, err := c.find()
	if err != nil {
		return "", err
	}
	return cp.Kubeconfig(), nil
}

// find returns the running control plane, or an error that says what to do.
func (c *Cluster) find() (*controlplane.ControlPlane, error) {
	cp, err := controlplane.Find(c.dir)
	if errors.Is(err, controlplane.ErrDown) {
		return nil, fmt.Errorf("cluster %s is not up: %w: run plumblab up", c.name, err)
	}
	return cp, err
}
