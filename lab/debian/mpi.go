// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"path/filepath"
)

// MPI returns a folder with Open MPI, the OpenSSH server and client that its mpirun and
// the MPI operator want, and a shell, unpacked with all that they are linked against.
func (a *Archive) MPI(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{
		Name: "mpi", Title: "Open MPI and OpenSSH (unpacked)",
		Packages: []string{"openmpi-bin", "openssh-server", "openssh-client", "bash", "coreutils"},
	})
}

// MPIHeaders returns the folder of Open MPI's headers.
func (a *Archive) MPIHeaders(ctx context.Context) (headers string, err error) {
	root, err := a.Fetch(ctx, Set{
		Name: "mpi-headers", Title: "Open MPI's headers (unpacked)", Alone: true,
		Packages: []string{"libopenmpi-dev"},
	})
	if err != nil {
		return "", err
	}
	header, err := match(root, "usr/lib/*/openmpi/include/mpi.h")
	return filepath.Dir(header), err
}

// MPILibrary is Open MPI's library of C functions in the folder that MPI returns.
func MPILibrary(root string) (string, error) { return match(root, "usr/lib/*/libmpi.so.40") }
