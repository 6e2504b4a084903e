// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"plumbline.dev/plumbline/internal/ociimage"
)

// Repository is where the chart looks for the image, if it is told no other.
const Repository = "plumbline.dev/plumbline"

// Image is the image of a release, with its bills of materials.
type Image struct {
	// Index is the image for all platforms.
	Index v1.ImageIndex
	// ByArchitecture are its parts.
	ByArchitecture map[string]v1.Image
	// BOMs are documents in SPDX's JSON form, by architecture.
	BOMs map[string][]byte
}

// Digest is what the chart names the image by.
func (i Image) Digest() (v1.Hash, error) { return i.Index.Digest() }

// Image builds the programs of a cluster, and packs them for architectures: those of
// a release are Architectures. work is a folder to build in.
func (s Source) Image(ctx context.Context, work string, architectures ...string) (Image, error) {
	for _, architecture := range architectures {
		platform := Platform{"linux", architecture}
		if err := s.Build(ctx, platform, NodePrograms, filepath.Join(work, platform.String())); err != nil {
			return Image{}, err
		}
	}
	return s.PackImage(work, architectures...)
}

// PackImage packs programs that Build has written into folders of work that are called
// after their platforms.
func (s Source) PackImage(work string, architectures ...string) (Image, error) {
	image := Image{ByArchitecture: map[string]v1.Image{}, BOMs: map[string][]byte{}}
	for _, architecture := range architectures {
		dir := filepath.Join(work, Platform{"linux", architecture}.String())
		content, err := s.content(dir, architecture)
		if err != nil {
			return Image{}, err
		}
		if image.ByArchitecture[architecture], err = ociimage.Compressed(content); err != nil {
			return Image{}, fmt.Errorf("pack the image for %s: %w", architecture, err)
		}
		if image.BOMs[architecture], err = s.billOfMaterials(dir, architecture); err != nil {
			return Image{}, err
		}
	}
	var err error
	image.Index, err = ociimage.Index(image.ByArchitecture, s.labels())
	return image, err
}

// content is what the image holds: the programs of dir, a database of PCI names,
// and nothing else.
func (s Source) content(dir, architecture string) (ociimage.Image, error) {
	programs := map[string]string{}
	for _, name := range NodePrograms {
		programs[path.Join("/usr/bin", name)] = filepath.Join(dir, name)
	}
	licence, err := os.ReadFile(filepath.Join(s.Dir, "LICENSE"))
	if err != nil {
		return ociimage.Image{}, fmt.Errorf("read the licence: %w", err)
	}
	return ociimage.Image{
		Layer: ociimage.Layer{
			Programs: programs,
			Files: map[string]string{
				"/usr/share/misc/pci.ids":          pciNames(),
				"/usr/share/doc/plumbline/LICENSE": string(licence),
			},
			Dirs: map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
			Time: s.Time,
		},
		Architecture: architecture,
		Command:      []string{"/usr/bin/plumbline-agent"},
		Labels:       s.labels(),
	}, nil
}

// labels are the OCI's own (image specification, annotations.md).
func (s Source) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "plumbline",
		"org.opencontainers.image.description": "DRA drivers for NICs and CPUs that sit beside a pod's GPUs",
		"org.opencontainers.image.vendor":      "The plumbline authors",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     s.Version,
	}
	if s.Commit != "" {
		labels["org.opencontainers.image.revision"] = s.Commit
		labels["org.opencontainers.image.created"] = s.Time.Format("2006-01-02T15:04:05Z")
	}
	return labels
}

// Write writes the image into dir, as a folder in the OCI image layout and as one
// archive of it, with its bills of materials, and returns the names of the files.
func (i Image) Write(dir, reference, stem string) ([]string, error) {
	layout := filepath.Join(dir, stem+".oci")
	if err := ociimage.WriteLayout(layout, reference, i.Index); err != nil {
		return nil, err
	}
	archive := stem + ".oci.tar"
	if err := ociimage.WriteArchive(filepath.Join(dir, archive), layout); err != nil {
		return nil, err
	}
	files := []string{archive}
	for _, architecture := range slices.Sorted(maps.Keys(i.BOMs)) {
		name := stem + "-" + architecture + ".spdx.json"
		if err := os.WriteFile(filepath.Join(dir, name), i.BOMs[architecture], 0o644); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	return files, nil
}
