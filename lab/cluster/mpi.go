// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
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
	allreduce, err := b.allreduce(ctx, root)
	if err != nil {
		return "", err
	}
	const file = "openmpi.tar"
	dir, err := b.cache.Do(ctx, b.progress, cache.Step{
		Name: "openmpi", Title: "image of Open MPI", Done: "packed",
		Key: new(cache.Key).Add(root, allreduce).Add(image.MPIContent()...).String(),
		Make: func(_ context.Context, out string) error {
			packed, err := image.MPIImage(image.MPI, root, allreduce)
			if err != nil {
				return err
			}
			return ociimage.WriteDocker(filepath.Join(out, file), packed)
		},
	})
	return filepath.Join(dir, file), err
}

// allreduce compiles the program that adds up, against Open MPI as unpacked below root.
func (b *ArtifactBuilder) allreduce(ctx context.Context, root string) (string, error) {
	headers, err := b.archive.MPIHeaders(ctx)
	if err != nil {
		return "", err
	}
	library, err := debian.MPILibrary(root)
	if err != nil {
		return "", err
	}
	return b.builder.Allreduce(ctx, headers, library)
}

// BenchImage packs the tools that plumbline bench runs into an archive for "docker load".
func (b *ArtifactBuilder) BenchImage(ctx context.Context, file, reference string) error {
	root, err := b.archive.Bench(ctx)
	if err != nil {
		return err
	}
	allreduce, err := b.allreduce(ctx, root)
	if err != nil {
		return err
	}
	packed, err := image.MPIImage(reference, root, allreduce)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return ociimage.WriteDocker(file, packed)
}

// Training packs PyTorch for CPUs with what plumbline bench runs, and a program that trains,
// and returns the archive of the image.
func (b *ArtifactBuilder) Training(ctx context.Context, train string) (string, error) {
	root, err := b.archive.Training(ctx)
	if err != nil {
		return "", err
	}
	allreduce, err := b.allreduce(ctx, root)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(train)
	if err != nil {
		return "", err
	}
	const file = "training.tar"
	dir, err := b.cache.Do(ctx, b.progress, cache.Step{
		Name: "training-image", Title: "image of PyTorch", Done: "packed",
		Key: new(cache.Key).Add(root, allreduce, string(text)).Add(image.TrainingContent()...).String(),
		Make: func(_ context.Context, out string) error {
			packed, err := image.TrainingImage(root, allreduce, train)
			if err != nil {
				return err
			}
			return ociimage.WriteDocker(filepath.Join(out, file), packed)
		},
	})
	return filepath.Join(dir, file), err
}
