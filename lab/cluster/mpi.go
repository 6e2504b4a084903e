// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"path/filepath"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/debian"
	"plumbline.dev/plumbline/lab/image"
)

// MPIArtifacts are what MPI jobs run from.
type MPIArtifacts struct {
	// Images are archives of the images of the MPI operator and of Open MPI.
	Images []string
	// Manifests is the folder that installs the operator (kubectl apply -k).
	Manifests string
}

// MPI builds the MPI operator and packs Debian's Open MPI. A cluster is run without them.
func (b *ArtifactBuilder) MPI(ctx context.Context) (MPIArtifacts, error) {
	operator, err := b.builder.MPIOperator(ctx)
	if err != nil {
		return MPIArtifacts{}, err
	}
	server := b.cache.Path("mpi-operator.tar")
	if err := ociimage.WriteDocker(server, image.ServerImages("", operator.Program)); err != nil {
		return MPIArtifacts{}, err
	}
	workers, err := b.packMPI(ctx)
	return MPIArtifacts{Images: []string{server, workers}, Manifests: operator.Manifests}, err
}

// packMPI packs the image of Open MPI.
func (b *ArtifactBuilder) packMPI(ctx context.Context) (string, error) {
	root, err := b.archive.MPI(ctx)
	if err != nil {
		return "", err
	}
	headers, err := b.archive.MPIHeaders(ctx)
	if err != nil {
		return "", err
	}
	library, err := debian.MPILibrary(root)
	if err != nil {
		return "", err
	}
	allreduce, err := b.builder.Allreduce(ctx, headers, library)
	if err != nil {
		return "", err
	}
	const file = "openmpi.tar"
	dir, err := b.cache.Do(ctx, b.progress, cache.Step{
		Name: "openmpi", Title: "image of Open MPI", Done: "packed",
		Key: new(cache.Key).Add(root, allreduce).Add(image.MPIContent()...).String(),
		Make: func(_ context.Context, out string) error {
			packed, err := image.MPIImage(root, allreduce)
			if err != nil {
				return err
			}
			return ociimage.WriteDocker(filepath.Join(out, file), packed)
		},
	})
	return filepath.Join(dir, file), err
}
