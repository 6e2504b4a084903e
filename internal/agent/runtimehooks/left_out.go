// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
)

// What a container is told of its devices is no reason to keep it from starting: where a
// file of it cannot be mounted it is left out, and an event of the pod says so.
//
// The container runtime applies CDI devices to a container's spec before it asks plugins,
// which see their mounts and may remove them by destination (containerd 2,
// internal/cri/server/container_create_linux.go, containerSpecOpts, and
// container_create.go, WithContainerAdjustment after WithSpec). CDI devices that a plugin
// asks for are injected before mounts are added and removed (nri,
// pkg/runtime-tools/generate, Generator.Adjust). So both can be taken away again here.

// metadataToRemove are the destinations of files of device metadata that the container
// must not get, and what its pod's owner should know of it. made is the container as the
// runtime shows it; given are the CDI devices that it is about to get.
func (h *hooks) metadataToRemove(ctx context.Context, c runtimestate.Running, made *api.Container, shares []podclaims.Share, given []string) (remove []string, notes []driver.Note, err error) {
	var files, comes []string
	for _, m := range made.GetMounts() {
		switch p := h.metadataOf(m); {
		case p == nil:
		case p.WithoutMetadata: // by a CDI file that another agent has written
			remove = append(remove, m.GetDestination())
		default:
			files = append(files, m.GetDestination())
		}
	}
	if len(given) > 0 && slices.ContainsFunc(made.GetMounts(), h.mayHideMetadata) {
		if comes, err = h.metadataOfPodLevel(ctx, c, shares); err != nil {
			return nil, nil, err
		}
		files = append(files, comes...)
	}
	for _, file := range files {
		over := readOnlyOver(made.GetMounts(), file)
		if over == nil {
			continue
		}
		remove = append(remove, file)
		notes = append(notes, driver.Note{Text: noteOf(c.Container.Name, "files of device metadata", over)}) // of all of them the same
	}
	return remove, notes, nil
}

// metadataOfPodLevel are the destinations of the files that come with the CDI devices
// which the agent gives to the containers of pods none of which names a claim.
func (h *hooks) metadataOfPodLevel(ctx context.Context, c runtimestate.Running, shares []podclaims.Share) ([]string, error) {
	what := fmt.Sprintf("pod %s, container %s: its device metadata", c.Sandbox, c.Container.Name)
	done := make(chan []string, 1)
	err := bounded(ctx, what, func(context.Context) error {
		var found []string
		for _, s := range shares {
			p := h.preparerOf(s.Record.Driver)
			if !s.PodLevel || p.Metadata == nil || p.WithoutMetadata {
				continue
			}
			mounts, _ := p.Metadata.Mounts(s.Record) // what cannot be read is not mounted either
			for i, m := range mounts {
				if slices.Contains(s.Devices, i) {
					found = append(found, m.Destination)
				}
			}
		}
		slices.Sort(found)
		done <- found
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-done, nil
}

// metadataOf is the preparer whose file of device metadata a mount shows; nil of any other
// mount.
func (h *hooks) metadataOf(m *api.Mount) *claims.Preparer {
	for _, p := range h.preparers {
		if p.Metadata != nil && p.Metadata.Tells(m.GetSource()) {
			return p
		}
	}
	return nil
}

// mayHideMetadata says whether a mount could be a read-only one over device metadata.
func (h *hooks) mayHideMetadata(m *api.Mount) bool {
	at := inRun(m.GetDestination())
	dir := inRun(metadata.ContainerDir)
	return isReadOnly(m) && h.metadataOf(m) == nil && (at == dir || isBelow(dir, at) || isBelow(at, dir))
}

// readOnlyOver is the read-only mount in which the mount point of a file would have to be
// made; nil where there is none. Mounts are made from the top down, so that the deepest
// one over the file decides, and of several at one place the last.
func readOnlyOver(mounts []*api.Mount, file string) *api.Mount {
	var over *api.Mount
	depth := 0
	for _, m := range mounts {
		at := inRun(m.GetDestination())
		if isBelow(inRun(file), at) && len(at) >= depth {
			over, depth = m, len(at)
		}
	}
	if over == nil || !isReadOnly(over) {
		return nil
	}
	return over
}

// inRun is a path of a container with /var/run, a link in nearly all images (FHS 3.0,
// 5.13), as what it leads to: nobody can look into the image here.
func inRun(file string) string {
	file = path.Clean(file)
	if rest, ok := strings.CutPrefix(file, "/var/run"); ok && (rest == "" || rest[0] == '/') {
		return "/run" + rest
	}
	return file
}

func isBelow(file, dir string) bool {
	rest, ok := strings.CutPrefix(file, dir)
	return ok && strings.HasPrefix(rest, "/")
}

// isReadOnly looks for the option that counts, which is the last (runc,
// libcontainer/specconv/spec_linux.go, parseMountOptions).
func isReadOnly(m *api.Mount) bool {
	readOnly := false
	for _, option := range m.GetOptions() {
		switch option {
		case "ro", "rro":
			readOnly = true
		case "rw", "rrw":
			readOnly = false
		}
	}
	return readOnly
}

// noteOf says that a container starts without something for the sake of a read-only mount.
func noteOf(container, without string, over *api.Mount) string {
	return fmt.Sprintf("container %s starts without its %s: its mount at %s is read-only, and no mount point can be made there: "+
		"mount what it needs below %[3]s, or let the mount be written", container, without, over.GetDestination())
}

// notesSaid are the notes of which a pod has an event: each container that is made says
// them again.
type notesSaid struct {
	mu   sync.Mutex
	said map[types.UID]map[string]bool
}

// first says whether a note is new of a pod, and remembers it.
func (n *notesSaid) first(pod types.UID, note string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[pod][note] {
		return false
	}
	if n.said == nil {
		n.said = map[types.UID]map[string]bool{}
	}
	if n.said[pod] == nil {
		n.said[pod] = map[string]bool{}
	}
	n.said[pod][note] = true
	return true
}

func (n *notesSaid) forget(pod types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.said, pod)
}

// say tells a pod's owner what its containers start without.
func (h *hooks) say(ctx context.Context, sandbox runtimestate.Sandbox, notes []driver.Note) {
	for _, note := range notes {
		if !h.said.first(sandbox.UID, note.Text) {
			continue
		}
		klog.FromContext(ctx).Info("left out", "pod", sandbox.String(), "reason", note.Text)
		h.events.Pod(sandbox.Namespace, driver.PodRef{UID: sandbox.UID, Name: sandbox.Name}, true, status.LeftOut, note.Text)
	}
}
