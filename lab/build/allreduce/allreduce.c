// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0
//
// Adds up vectors of all ranks, again and again, and checks every sum. It measures nothing:
// what matters is over which interface the bytes went.

#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1 << 20, ROUNDS = 8 };

static double mine[COUNT], sums[COUNT];

int main(int argc, char **argv)
{
	int rank, ranks, length;
	long wrong = 0, all = 0;
	char host[MPI_MAX_PROCESSOR_NAME];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Get_processor_name(host, &length);
	printf("ALLREDUCE_RANK rank=%d host=%s\n", rank, host);
	for (int round = 0; round < ROUNDS; round++) {
		// Whole numbers far below 2^53: their sums are exact in any order.
		for (int i = 0; i < COUNT; i++)
			mine[i] = (double)(rank + 1) * (i % 1009 + round);
		MPI_Allreduce(mine, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < COUNT; i++)
			wrong += sums[i] != ranks * (ranks + 1) / 2.0 * (i % 1009 + round);
	}
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("ALLREDUCE_RESULT ranks=%d rounds=%d bytes=%zu wrong=%ld\n", ranks, ROUNDS, sizeof(mine), all);
	MPI_Finalize();
	return 0;
}
