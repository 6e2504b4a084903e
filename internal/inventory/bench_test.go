// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest/manylinks"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

// recorder notes which attributes are read and which links.
type recorder struct {
	*sysfs.Dir
	attributes, links []string
}

func (r *recorder) ReadAttribute(name string, buf []byte) (int, error) {
	r.attributes = append(r.attributes, name)
	return r.Dir.ReadAttribute(name, buf)
}

func (r *recorder) ReadLink(name string) (string, error) {
	r.links = append(r.links, name)
	return r.Dir.ReadLink(name)
}

var _ fs.ReadLinkFS = (*recorder)(nil)

// BenchmarkScanA3 scans the tree of an a3-ultragpu-8g on disk. Beside the time
// it reports how many files the scan looks at, and how it compares with the
// floor: the kernel handing out those same files, opened by one absolute path
// each and not looked at.
func BenchmarkScanA3(b *testing.B) {
	dir := renderTo(b, "a3-ultragpu-8g")
	sys, err := sysfs.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sys.Close() })
	seen := recorder{Dir: sys}
	m := scanTree(b, &seen)
	if len(m.NICs) != 8 || len(m.CPUs) != 224 {
		b.Fatalf("got %d NICs and %d CPUs, want the machine whole", len(m.NICs), len(m.CPUs))
	}
	readAll := kernelReads(dir, seen.attributes, seen.links)
	var floor time.Duration
	for b.Loop() {
		scanTree(b, sys)
		// In turns, so that a busy machine slows both alike.
		b.StopTimer()
		start := time.Now()
		readAll()
		floor += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(len(seen.attributes)+len(seen.links)), "files/op")
	b.ReportMetric(float64(floor.Nanoseconds())/float64(b.N), "floor-ns/op")
	b.ReportMetric(float64(b.Elapsed())/float64(floor), "x-floor")
}

// BenchmarkScanThousandLinks looks once at a node full of pods: this machine,
// with a thousand links. The naive way, in
// the same run, asks for each link what it asks for once: all addresses, to find
// the link's, and its queueing disciplines.
func BenchmarkScanThousandLinks(b *testing.B) {
	ns := manylinks.New(b)
	sys, err := sysfs.Open(ns.Sys(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sys.Close() })
	links, err := inventory.OpenNetlink(ns.Fd(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(links.Close)
	src := inventory.Sources{Sys: sys, Links: links}
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	naive := manylinks.LookNaively(b, conn)
	for b.Loop() {
		if _, _, err := inventory.Scan(b.Context(), src, inventory.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	took := b.Elapsed() / time.Duration(b.N)
	naive = (naive + manylinks.LookNaively(b, conn)) / 2
	b.ReportMetric(float64(took)/float64(naive), "x-naive")
}

func renderTo(b *testing.B, name string) string {
	b.Helper()
	facts, err := machine.OpenFacts(name)
	if err != nil {
		b.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), name)
	if err := tree.WriteTo(dir); err != nil {
		b.Fatal(err)
	}
	return dir
}

func scanTree(b *testing.B, sys fs.FS) *model.Machine {
	b.Helper()
	m, problems, err := inventory.Scan(context.Background(), inventory.Sources{Sys: sys}, inventory.Options{})
	if err != nil || len(problems) > 0 {
		b.Fatal(err, problems)
	}
	return m
}

// kernelReads returns what reads files and links by one absolute path each.
func kernelReads(dir string, attributes, links []string) func() {
	var buf [4097]byte
	absolute := func(names []string) []string {
		paths := make([]string, len(names))
		for i, n := range names {
			paths[i] = filepath.Join(dir, n)
		}
		return paths
	}
	attributes, links = absolute(attributes), absolute(links)
	return func() {
		for _, name := range attributes {
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				continue // an attribute the scan looked for in vain
			}
			_, _ = unix.Read(fd, buf[:])
			_ = unix.Close(fd)
		}
		for _, name := range links {
			_, _ = unix.Readlink(name, buf[:])
		}
	}
}
