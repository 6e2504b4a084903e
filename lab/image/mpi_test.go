// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What the packages' scripts would have made takes the place of what the packages have, and
// what nobody reads stays out.
func TestMPIImage(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"usr/bin/orted", "usr/share/doc/openmpi/copyright", "etc/ssh/ssh_config", "lib/libc.so.6.1"} {
		at := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("libc.so.6.1", filepath.Join(root, "lib/libc.so.6")); err != nil {
		t.Fatal(err)
	}
	images, err := MPIImage(MPI, root, "/store/allreduce")
	if err != nil {
		t.Fatal(err)
	}
	layer := images[MPI].Layer
	want := map[string]string{
		"/usr/bin/orted": filepath.Join(root, "usr/bin/orted"), "/lib/libc.so.6.1": filepath.Join(root, "lib/libc.so.6.1"),
		Allreduce: "/store/allreduce",
	}
	if !maps.Equal(layer.Programs, want) {
		t.Errorf("programs %v, want %v", layer.Programs, want)
	}
	if layer.Links["/lib/libc.so.6"] != "libc.so.6.1" || layer.Links["/usr/bin/mpirun"] != "mpirun.openmpi" {
		t.Errorf("links %v", layer.Links)
	}
	if got := layer.Files["/etc/ssh/ssh_config"]; got != ssh {
		t.Errorf("ssh_config %q", got)
	}
}

func TestServerImages(t *testing.T) {
	for _, tc := range []struct {
		coreDNS, operator string
		want              []string
	}{{"/store/coredns", "", []string{CoreDNS}}, {"", "/store/mpi-operator", []string{MPIOperator}}} {
		if got := slices.Collect(maps.Keys(ServerImages(tc.coreDNS, tc.operator))); !slices.Equal(got, tc.want) {
			t.Errorf("images %q, want %q", got, tc.want)
		}
	}
}
