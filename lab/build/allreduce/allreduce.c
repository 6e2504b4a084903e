// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0
//
// Adds up vectors of all ranks, again and again, and checks every sum. Without flags it
// measures nothing: what matters is over which interface the bytes went. With -b and -e, and
// the other flags that nccl-tests' all_reduce_perf has of the same meaning (-f, -g, -w, -n), it
// prints their table of sizes, so that who reads that one reads this one.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 1 << 20, ROUNDS = 8 };

static double mine[COUNT], sums[COUNT];

static int rank, ranks;

static void prove(void)
{
	long wrong = 0, all = 0;

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
}

static void fill(float *vector, long count)
{
	// Whole numbers far below 2^24.
	for (long i = 0; i < count; i++)
		vector[i] = (rank + 1) * (i % 7 + 1);
}

// add sums vectors up, into another one or into their own, and prints half a row. It returns
// the bus bandwidth in GB/s: what links carry, whatever the number of ranks.
static double add(float *from, float *into, long count, int warmup, int rounds, long *failed)
{
	void *what = from == into ? MPI_IN_PLACE : from;
	double seconds = 0, took;
	long wrong = 0, all;

	for (int round = -warmup; round < rounds; round++) {
		// A sum in place is of what was there, which is gone then.
		fill(from, count);
		MPI_Barrier(MPI_COMM_WORLD);
		double began = MPI_Wtime();
		MPI_Allreduce(what, into, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (round >= 0)
			seconds += MPI_Wtime() - began;
	}
	for (long i = 0; i < count; i++)
		wrong += into[i] != ranks * (ranks + 1) / 2 * (i % 7 + 1);
	MPI_Allreduce(&seconds, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	took /= rounds;
	*failed += all;
	double algorithm = count * sizeof(float) / took / 1e9;
	double bus = algorithm * 2 * (ranks - 1) / ranks;
	if (rank == 0)
		printf("  %9.2f %7.2f %7.2f %6ld", took * 1e6, algorithm, bus, all);
	return bus;
}

static int measure(long first, long last, long factor, int warmup, int rounds)
{
	float *from = malloc(last), *into = malloc(last);
	double sum = 0;
	long failed = 0, rows = 0;

	if (!from || !into)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (rank == 0)
		printf("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
		       "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n");
	for (long size = first; size <= last; size *= factor, rows += 2) {
		long count = size / sizeof(float);
		if (rank == 0)
			printf("%12ld  %12ld     float     sum      -1", size, count);
		sum += add(from, into, count, warmup, rounds, &failed);
		sum += add(from, from, count, warmup, rounds, &failed);
		if (rank == 0)
			printf("\n");
	}
	if (rank == 0)
		printf("# Out of bounds values : %ld %s\n# Avg bus bandwidth    : %g\n#\n", failed, failed ? "FAILED" : "OK", sum / rows);
	free(from);
	free(into);
	return failed != 0;
}

int main(int argc, char **argv)
{
	long first = 0, last = 0, factor = 2;
	int length, warmup = 5, rounds = 20, failed = 0;
	char host[MPI_MAX_PROCESSOR_NAME];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int flag; (flag = getopt(argc, argv, "b:e:f:g:w:n:")) != -1;) {
		switch (flag) {
		case 'b': first = atol(optarg); break;
		case 'e': last = atol(optarg); break;
		case 'f': factor = atol(optarg); break;
		case 'g': break; // There are no GPUs.
		case 'w': warmup = atoi(optarg); break;
		case 'n': rounds = atoi(optarg); break;
		default: MPI_Abort(MPI_COMM_WORLD, 2);
		}
	}
	if (last > 0) {
		if (first < (long)sizeof(float) || last < first || factor < 2 || warmup < 0 || rounds < 1)
			MPI_Abort(MPI_COMM_WORLD, 2);
		failed = measure(first, last, factor, warmup, rounds);
	} else {
		MPI_Get_processor_name(host, &length);
		printf("ALLREDUCE_RANK rank=%d host=%s\n", rank, host);
		prove();
	}
	MPI_Finalize();
	return failed;
}
