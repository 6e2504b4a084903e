// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Index is one image for several platforms: those that Compressed packed, by
// architecture.
func Index(images map[string]v1.Image, annotations map[string]string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range slices.Sorted(maps.Keys(images)) {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[architecture],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	annotated, ok := mutate.Annotations(index, annotations).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotate the index of %s: the library returned no index", strings.Join(slices.Sorted(maps.Keys(images)), ", "))
	}
	return annotated, nil
}

// Attachment is a document about an image, which registries list among the image's
// referrers (OCI distribution specification 1.1).
func Attachment(document []byte, mediaType string, about v1.Image) (v1.Image, error) {
	subject, err := partial.Descriptor(about)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.MediaType(mediaType))
	filled, err := mutate.AppendLayers(base, static.NewLayer(document, types.MediaType(mediaType)))
	if err != nil {
		return nil, err
	}
	attached, ok := mutate.Subject(filled, *subject).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("attach %s to an image: the library returned no image", mediaType)
	}
	return attached, nil
}
