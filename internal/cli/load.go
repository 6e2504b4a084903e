// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// scanned is a machine with where it comes from.
type scanned struct {
	machine *model.Machine
	// source is in words, for people.
	source   string
	problems []inventory.Problem
	// facts is nil unless the machine comes from a facts file.
	facts *machine.Facts
	// notes are what a reader must know.
	notes []string
}

// view is what is drawn of a machine that was scanned.
func (s scanned) view() *published.View {
	v := &published.View{Machine: s.machine, Options: topoview.Options{Source: s.source, Notes: s.notes}}
	for _, p := range s.problems {
		v.Left = append(v.Left, p.String())
	}
	if s.facts != nil {
		v.Options.Products = products(s.facts)
		v.Options.Notes = append(v.Options.Notes, "memory sizes and distances of NUMA nodes are assumed: a facts file does not state them")
	}
	return v
}

// watchHost views this host whenever its hardware changes.
func watchHost(ctx context.Context) (<-chan *published.View, error) {
	options, source := hostOptions()
	links, err := inventory.OpenNetlink(netns.Current, nil)
	if err != nil {
		return nil, fmt.Errorf("watch this host: %w", err)
	}
	views := make(chan *published.View)
	go func() {
		defer close(views)
		defer links.Close()
		for look := range inventory.Watch(ctx, inventory.Sources{Sys: os.DirFS(defaultSys), Links: links}, options, resync) {
			if look.Err != nil {
				continue // what was seen last stays true
			}
			s := scanned{machine: look.Machine, source: source, problems: look.Problems}
			select {
			case views <- s.view():
			case <-ctx.Done():
				return
			}
		}
	}()
	return views, nil
}

// resync is how often watchHost scans without an event: netlink notifies of links,
// and of nothing else.
const resync = 10 * time.Second

// hostOptions are the name and architecture of this host, and where its facts
// come from, in words.
func hostOptions() (inventory.Options, string) {
	name, err := os.Hostname()
	if err != nil {
		name = "this host"
	}
	return inventory.Options{Name: name, Architecture: architecture(), DataDirect: inventory.NewDataDirect()}, defaultSys + " of this host"
}

// loadMachine reads a shipped machine by name, or a machine file: facts or a
// recording. It goes the way a real host goes, over a sysfs tree.
func loadMachine(ctx context.Context, nameOrPath string) (scanned, error) {
	file, err := machine.Open(nameOrPath)
	if err != nil {
		return scanned{}, err
	}
	var gpus inventory.GPUs
	if file.Facts != nil {
		gpus = inventory.Listed(file.Facts.ModelGPUs())
	}
	s, err := scan(ctx, file.Tree, gpus, file.Source, inventory.Options{Name: file.Name, Architecture: file.Arch})
	s.facts = file.Facts
	return s, err
}

// loadHost scans the machine we run on. Whoever may read /sys may do it. Another
// directory is another machine: then netlink, which is of this one, is not
// read, and no NIC is known to be the node's own.
func loadHost(ctx context.Context, sys string) (scanned, error) {
	if sys != defaultSys {
		return scan(ctx, os.DirFS(sys), nil, "sysfs tree "+sys, inventory.Options{Name: filepath.Base(sys)})
	}
	options, source := hostOptions()
	links, err := inventory.OpenNetlink(netns.Current, nil)
	if err != nil {
		s, scanErr := scan(ctx, os.DirFS(sys), nil, source, options)
		s.notes = append(s.notes, "NICs that the host itself needs are not marked: "+cmdutil.OneLine(err))
		return s, scanErr
	}
	defer links.Close()
	return scanSources(ctx, inventory.Sources{Sys: os.DirFS(sys), Links: links}, source, options)
}

// scan reads a tree alone, without netlink.
func scan(ctx context.Context, sys fs.FS, gpus inventory.GPUs, source string, o inventory.Options) (scanned, error) {
	return scanSources(ctx, inventory.Sources{Sys: sys, GPUs: gpus}, source, o)
}

func scanSources(ctx context.Context, src inventory.Sources, source string, o inventory.Options) (scanned, error) {
	m, problems, err := inventory.Scan(ctx, src, o)
	if err != nil {
		return scanned{}, fmt.Errorf("read %s: %w", source, err)
	}
	return scanned{machine: m, source: source, problems: problems}, nil
}

// architecture is uname's word for what this program was built for.
func architecture() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

// products are the product names of a facts file by PCI address.
func products(f *machine.Facts) map[string]string {
	names := map[string]string{}
	for _, d := range slices.Concat(f.GPUs, f.NICs) {
		names[d.Address.String()] = d.Model
	}
	return names
}
