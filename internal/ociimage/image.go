// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"bytes"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is one image: a layer and what to run in it.
type Image struct {
	Layer Layer
	// Architecture is Go's name of the processor; the system is Linux.
	Architecture string
	// Command is run where a pod names none.
	Command []string
	// Labels say where the image comes from, by the keys of the OCI image
	// specification (annotations.md).
	Labels map[string]string
}

// searchPath is where a command without a slash is looked for.
const searchPath = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// Uncompressed packs an image in Docker's format whose layer is as it is: to unpack
// one on an emulated processor costs more than the space.
func Uncompressed(image Image) (v1.Image, error) {
	content, err := image.Layer.Tar()
	if err != nil {
		return nil, err
	}
	return pack(image, empty.Image, static.NewLayer(content, types.DockerUncompressedLayer))
}

// Compressed packs an image in the OCI's format, its layer packed by gzip.
func Compressed(image Image) (v1.Image, error) {
	content, err := image.Layer.Tar()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return pack(image, base, layer)
}

func pack(image Image, base v1.Image, layer v1.Layer) (v1.Image, error) {
	filled, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := filled.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", image.Architecture
	config.Created = v1.Time{Time: image.Layer.Time}
	config.Config = v1.Config{Env: []string{searchPath}, Cmd: image.Command, Labels: image.Labels}
	return mutate.ConfigFile(filled, config)
}
