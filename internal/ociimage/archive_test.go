// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func sample(t *testing.T) Image {
	t.Helper()
	program := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(program, []byte("elf"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Image{
		Layer: Layer{
			Programs: map[string]string{"/usr/bin/p": program},
			Files:    map[string]string{"/etc/passwd": "root"},
			Links:    map[string]string{"/bin/q": "../usr/bin/p"},
			Dirs:     map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
		},
		Command: []string{"/bin/q"},
	}
}

func TestWrite(t *testing.T) {
	sampleImage := sample(t)
	var archives [][]byte
	for range 2 {
		file := filepath.Join(t.TempDir(), "images.tar")
		if err := WriteDocker(file, map[string]Image{"plumbline.dev/lab/a:latest": sampleImage, "plumbline.dev/lab/b:latest": sampleImage}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
		for _, reference := range []string{"plumbline.dev/lab/a:latest", "plumbline.dev/lab/b:latest"} {
			checkImage(t, file, reference)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same files made two different archives")
	}
}

func checkImage(t *testing.T, file, reference string) {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/q"}, config.Config.Cmd); diff != "" {
		t.Error(diff)
	}
}

func TestLayerOrderAndModes(t *testing.T) {
	data, err := sample(t).Layer.Tar()
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name string
		Mode int64
	}
	var got []entry
	r := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{header.Name, header.Mode})
	}
	want := []entry{
		{"bin/", 0o755}, {"bin/q", 0o777}, {"etc/", 0o755}, {"etc/passwd", 0o644},
		{"tmp/", 0o1777}, {"usr/", 0o755}, {"usr/bin/", 0o755}, {"usr/bin/p", 0o755},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTarIsWhole demands the last file's padding and the two empty blocks at the end, without
// which tar(1) unpacks nothing that it calls whole (Go's reader does not ask for them).
func TestTarIsWhole(t *testing.T) {
	data, err := Layer{Files: map[string]string{"/etc/passwd": "root"}}.Tar()
	if err != nil {
		t.Fatal(err)
	}
	const block = 512
	// Of the folder, of the file, its content, and the end.
	if want := 5 * block; len(data) != want || !bytes.HasSuffix(data, make([]byte, 2*block)) {
		t.Errorf("%d bytes, want %d of which the last two blocks are empty", len(data), want)
	}
}

// TestWriteArchive reads back what a node imports: one image for all platforms, by its
// tag and by the digest that a chart names.
func TestWriteArchive(t *testing.T) {
	const reference = "registry.example.com/plumbline:1.2.3"
	images := map[string]v1.Image{}
	for _, architecture := range []string{"arm64", "amd64"} {
		packed, err := Compressed(Image{
			Layer:        Layer{Files: map[string]string{"/etc/architecture": architecture}},
			Architecture: architecture, Labels: map[string]string{"k": "v"},
		})
		if err != nil {
			t.Fatal(err)
		}
		images[architecture] = packed
	}
	index, err := Index(images, map[string]string{"k": "v"})
	if err != nil {
		t.Fatal(err)
	}
	dir, archives := t.TempDir(), [2][]byte{}
	for i := range archives { // the second in the place of the first
		file := filepath.Join(dir, "image.tar")
		if err := WriteLayout(filepath.Join(dir, "image"), reference, index); err != nil {
			t.Fatal(err)
		}
		if err := WriteArchive(file, filepath.Join(dir, "image")); err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same image made two different archives")
	}
	written, err := layout.ImageIndexFromPath(filepath.Join(dir, "image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(written); err != nil {
		t.Error(err)
	}
	manifest, err := written.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range manifest.Manifests {
		if m.Digest != digest {
			t.Errorf("holds %s, want %s", m.Digest, digest)
		}
		names = append(names, m.Annotations["io.containerd.image.name"])
	}
	want := []string{reference, "registry.example.com/plumbline@" + digest.String()}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestWriteLayoutRefuses(t *testing.T) {
	index, err := Index(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteLayout(filepath.Join(t.TempDir(), "image"), "no name", index); err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("got %v", err)
	}
}
