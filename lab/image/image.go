// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package image packs container images from files, without a registry and
// without a container engine. The same files make the same image, byte for
// byte, whoever packs them. It knows what is in the lab's images, not who
// runs them.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Names of the lab's images. None can be pulled; each is put on the node.
const (
	// Busybox is a shell with the usual small tools.
	Busybox = "plumbline.dev/lab/busybox:latest"
	// Pause holds a pod's namespaces.
	Pause = "plumbline.dev/lab/pause:latest"
	// Plumbline is the project's own image, under the tag the chart's
	// rendering in deploy/ asks for.
	Plumbline = "plumbline.dev/plumbline:dev"
	// DRANET is the driver that ours is measured beside.
	DRANET = "plumbline.dev/lab/dranet:latest"
)

// Layer is the content of one image layer.
type Layer struct {
	// Programs maps a path in the image to the host's file to copy there,
	// executable.
	Programs map[string]string
	// Files maps a path to its content, readable by all.
	Files map[string]string
	// Links maps a path to what the symbolic link there leads to.
	Links map[string]string
	// Dirs are folders that would else be missing, with their mode.
	Dirs map[string]os.FileMode
}

// Image is one image: a layer and what to run in it.
type Image struct {
	Layer Layer
	// Command is run where a pod names none.
	Command []string
}

// searchPath is where a command without a slash is looked for.
const searchPath = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// Write packs the images, by name, into one archive at file, for
// "ctr images import" and "docker load".
func Write(file string, images map[string]Image) error {
	packed := map[name.Reference]v1.Image{}
	for reference, image := range images {
		tag, err := name.NewTag(reference)
		if err != nil {
			return fmt.Errorf("pack image %s: %w", reference, err)
		}
		if packed[tag], err = pack(image); err != nil {
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

func pack(image Image) (v1.Image, error) {
	content, err := image.Layer.tar()
	if err != nil {
		return nil, err
	}
	// Not compressed: to unpack on an emulated processor costs more than
	// the space.
	layer := static.NewLayer(content, types.DockerUncompressedLayer)
	filled, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := filled.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config = v1.Config{Env: []string{searchPath}, Cmd: image.Command}
	return mutate.ConfigFile(filled, config)
}

// tar writes the layer in the order of its paths, folders first, without
// times and owners.
func (l Layer) tar() ([]byte, error) {
	headers := map[string]*tar.Header{}
	content := map[string][]byte{}
	for at, source := range l.Programs {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		headers[at] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}
		content[at] = data
	}
	for at, text := range l.Files {
		headers[at] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}
		content[at] = []byte(text)
	}
	for at, target := range l.Links {
		headers[at] = &tar.Header{Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}
	}
	for at, mode := range l.Dirs {
		headers[at] = dir(mode)
	}
	for _, at := range slices.Collect(maps.Keys(headers)) {
		for parent := path.Dir(at); parent != "." && parent != "/"; parent = path.Dir(parent) {
			if headers[parent] == nil {
				headers[parent] = dir(0o755)
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, at := range slices.Sorted(maps.Keys(headers)) {
		header := headers[at]
		header.Name = strings.TrimPrefix(at, "/")
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", at, err)
		}
		if _, err := w.Write(content[at]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", at, err)
		}
	}
	return out.Bytes(), w.Close()
}

// dir is a folder's header. The sticky bit has its own place in an archive.
func dir(mode os.FileMode) *tar.Header {
	bits := int64(mode.Perm())
	if mode&os.ModeSticky != 0 {
		bits |= 0o1000
	}
	return &tar.Header{Typeflag: tar.TypeDir, Mode: bits}
}
