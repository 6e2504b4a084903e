// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// containerEdits asks the drivers of a container's shares for what it gets that could
// not be known before its devices were in the pod. made is the container as the runtime
// shows it. Most containers have no share, and cost nothing here.
func (h *hooks) containerEdits(ctx context.Context, c runtimestate.Running, made *api.Container, shares []podclaims.Share) (driver.ContainerEdits, error) {
	var all driver.ContainerEdits
	if len(shares) == 0 {
		return all, nil
	}
	has, netns := contentsOf(made), c.Sandbox.Netns
	shares = inOrder(shares, h.pods.Get(c.Sandbox.UID))
	for _, p := range h.preparers {
		if p.ContainerEditor == nil {
			continue
		}
		mine := slices.DeleteFunc(slices.Clone(shares), func(s podclaims.Share) bool { return s.Record.Driver != p.Name() })
		if len(mine) == 0 {
			continue
		}
		what := fmt.Sprintf("pod %s, container %s: what it gets of %s", c.Sandbox, c.Container.Name, p.Name())
		done := make(chan driver.ContainerEdits, 1)
		err := bounded(ctx, what, func(ctx context.Context) error {
			found, err := h.editsOf(ctx, p, mine, netns, has)
			done <- found
			return err
		})
		if err != nil {
			return driver.ContainerEdits{}, err
		}
		edits := <-done
		all.Env = append(all.Env, edits.Env...)
		all.CharDevices = append(all.CharDevices, edits.CharDevices...)
		all.Mounts = append(all.Mounts, edits.Mounts...)
		all.Notes = append(all.Notes, edits.Notes...)
	}
	return has.without(all), nil
}

// editsOf are the edits of one driver, with its files in place, which end with the first
// claim. That is locked meanwhile: it may be unprepared, and the driver closed.
func (h *hooks) editsOf(ctx context.Context, p *claims.Preparer, shares []podclaims.Share, netns string, has contents) (driver.ContainerEdits, error) {
	first, unlock, err := h.lockCurrent(ctx, p, shares[0].Record)
	if err != nil {
		return driver.ContainerEdits{}, err
	}
	defer unlock()
	var held []driver.Record
	for _, s := range shares {
		held = append(held, s.Part())
	}
	edits, err := p.ContainerEditor.ContainerEdits(ctx, held, netns)
	if err != nil {
		return driver.ContainerEdits{}, err
	}
	mounts, notes := has.mountable(edits.Mounts)
	edits.Mounts, edits.Notes = mounts, append(edits.Notes, notes...)
	for _, f := range edits.Files {
		if has.env[f.Env] || has.mounts[f.Destination] {
			continue
		}
		if over := readOnlyOver(has.all, f.Destination); over != nil {
			edits.Notes = append(edits.Notes, driver.Note{Env: f.Env, Text: noteOf(has.name, "file of "+f.Env, over)})
			continue
		}
		source, err := p.PlaceFile(first, f.Name, f.Content)
		if err != nil {
			return driver.ContainerEdits{}, err
		}
		edits.Env = append(edits.Env, f.Env+"="+f.Destination)
		edits.Mounts = append(edits.Mounts, driver.Mount{Source: source, Destination: f.Destination})
	}
	return edits, nil
}

// inOrder are shares in the order of the pod's claims; as they are while the pod is not
// known to the API watch.
func inOrder(shares []podclaims.Share, facts *kube.Pod) []podclaims.Share {
	if facts == nil {
		return shares
	}
	place := func(s podclaims.Share) int { return slices.Index(facts.Claims, s.Record.Claim.Name) }
	return slices.SortedStableFunc(slices.Values(shares), func(a, b podclaims.Share) int { return cmp.Compare(place(a), place(b)) })
}

// contents are what a container has before the agent adds to it: the names of its
// variables, the paths of its device files, the destinations of its mounts.
type contents struct {
	env, devices, mounts map[string]bool
	// name is the container's, and all are its mounts as they are.
	name string
	all  []*api.Mount
}

func contentsOf(c *api.Container) contents {
	has := contents{name: c.GetName(), env: map[string]bool{}, devices: map[string]bool{}, mounts: map[string]bool{}, all: c.GetMounts()}
	for _, env := range c.GetEnv() {
		has.env[nameOf(env)] = true
	}
	for _, d := range c.GetLinux().GetDevices() {
		has.devices[d.GetPath()] = true
	}
	for _, m := range c.GetMounts() {
		has.mounts[m.GetDestination()] = true
	}
	return has
}

// without is the part of the edits that the container lacks, each once: what a user or
// another agent has set stays, and the runtime refuses a container in which two plugins
// set the same.
func (has contents) without(e driver.ContainerEdits) driver.ContainerEdits {
	var out driver.ContainerEdits
	for _, n := range e.Notes {
		if !has.env[n.Env] {
			out.Notes = append(out.Notes, n)
		}
	}
	for _, env := range e.Env {
		if name := nameOf(env); !has.env[name] {
			has.env[name] = true
			out.Env = append(out.Env, env)
		}
	}
	for _, d := range e.CharDevices {
		if !has.devices[d.Path] {
			has.devices[d.Path] = true
			out.CharDevices = append(out.CharDevices, d)
		}
	}
	for _, m := range e.Mounts {
		if !has.mounts[m.Destination] {
			has.mounts[m.Destination] = true
			out.Mounts = append(out.Mounts, m)
		}
	}
	return out
}

// mountable are those mounts that the container can have beside its own, and notes on those
// that it starts without. One that it has already is no loss: its pod may mount the same, or
// another agent was here before.
func (has contents) mountable(mounts []driver.Mount) (can []driver.Mount, notes []driver.Note) {
	for _, m := range mounts {
		what := fmt.Sprintf("mount of the host's %s at %s", m.Source, m.Destination)
		own := ownAtOrBelow(has.all, m.Destination)
		over := readOnlyOver(has.all, m.Destination)
		switch {
		case own != nil && own.GetSource() == m.Source && inRun(own.GetDestination()) == m.Destination:
		case own != nil:
			notes = append(notes, driver.Note{Text: fmt.Sprintf("container %s starts without its %s: it has a mount of its own at %s: "+
				"leave that out to have what its NIC's class gives", has.name, what, own.GetDestination())})
		case over != nil:
			notes = append(notes, driver.Note{Text: noteOf(has.name, what, over)})
		default:
			can = append(can, m)
		}
	}
	return can, notes
}

// ownAtOrBelow is a container's own mount at a path, the last of several, or else one below
// it, whose mount point nobody could make in what is mounted there read-only.
func ownAtOrBelow(all []*api.Mount, destination string) *api.Mount {
	var at, below *api.Mount
	for _, m := range all {
		switch own := inRun(m.GetDestination()); {
		case own == destination:
			at = m
		case isBelow(own, destination):
			below = m
		}
	}
	if at != nil {
		return at
	}
	return below
}

func nameOf(env string) string {
	name, _, _ := strings.Cut(env, "=")
	return name
}

// addEdits puts edits into NRI's message. The runtime adds to the container's device
// cgroup what it adds of devices.
func addEdits(a *api.ContainerAdjustment, e driver.ContainerEdits) {
	for _, env := range e.Env {
		name, value, _ := strings.Cut(env, "=")
		a.AddEnv(name, value)
	}
	for _, d := range e.CharDevices {
		a.AddDevice(&api.LinuxDevice{Path: d.Path, Type: "c", Major: d.Major, Minor: d.Minor, FileMode: api.FileMode(d.Mode)})
	}
	for _, m := range e.Mounts {
		a.AddMount(&api.Mount{Source: m.Source, Destination: m.Destination, Type: "bind", Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	}
}
