// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package mpi runs the MPIJob of the document on the MPI operator with that operator, on a
// node on this host: the launcher's mpirun reaches the workers by name, and their allreduce
// goes over the NICs that they claimed, as these NICs' counters show. Then the same job runs
// with other NICs, which is all that differs. The jobs of the document on distributed training
// are likewise run. The manifests are those of examples/mpi-operator-gpudirect and of
// examples/distributed-training-numa.
package mpi
