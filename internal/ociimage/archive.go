// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"plumbline.dev/plumbline/internal/atomicfile"
)

// WriteDocker packs images, by name, into one archive at file in Docker's format,
// for "ctr images import" and "docker load". Layers are not compressed.
func WriteDocker(file string, images map[string]Image) error {
	packed := map[name.Reference]v1.Image{}
	for reference, image := range images {
		tag, err := name.NewTag(reference)
		if err != nil {
			return fmt.Errorf("pack image %s: %w", reference, err)
		}
		if packed[tag], err = Uncompressed(image); err != nil {
			return fmt.Errorf("pack image %s: %w", reference, err)
		}
	}
	// Another cluster may be starting from the same file.
	unfinished := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := tarball.MultiRefWriteToFile(unfinished, packed); err != nil {
		return errors.Join(fmt.Errorf("write images to %s: %w", file, err), os.Remove(unfinished))
	}
	return os.Rename(unfinished, file)
}

// WriteLayout writes the image called reference, HOST/NAME:TAG, into a folder in the
// OCI image layout, in the place of what was there.
func WriteLayout(dir, reference string, index v1.ImageIndex) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("begin the image layout %s: %w", dir, err)
	}
	if err := path.WriteIndex(index); err != nil {
		return fmt.Errorf("write image %s into %s: %w", reference, dir, err)
	}
	descriptor, err := partial.Descriptor(index)
	if err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	// Imported, it has both names: pods of the chart name it by its digest, and a node
	// that has no image of that very name pulls it.
	for _, called := range []string{tag.Name(), tag.Digest(digest.String()).Name()} {
		descriptor.Annotations = map[string]string{
			"io.containerd.image.name":          called, // ctr images import
			"org.opencontainers.image.ref.name": tag.TagStr(),
		}
		if err := path.AppendDescriptor(*descriptor); err != nil {
			return fmt.Errorf("write image %s into %s: %w", reference, dir, err)
		}
	}
	return nil
}

// WriteArchive packs a folder that WriteLayout wrote into one file.
func WriteArchive(file, dir string) error {
	content := Layer{Files: map[string]string{}}
	err := fs.WalkDir(os.DirFS(dir), ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, at))
		content.Files["/"+at] = string(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("pack the image layout %s: %w", dir, err)
	}
	packed, err := content.Tar()
	if err != nil {
		return fmt.Errorf("pack the image layout %s: %w", dir, err)
	}
	return atomicfile.Write(file, 0o644, bytes.NewReader(packed))
}
