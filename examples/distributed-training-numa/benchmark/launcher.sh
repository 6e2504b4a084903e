#!/bin/bash
# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts so many ranks in each worker, and tells them where rank 0 waits for the others.
set -euo pipefail

: "${OMPI_MCA_orte_default_hostfile:=/etc/mpi/hostfile}"
: "${RANKS_PER_WORKER:=1}"
workers=()
while read -r host _; do
	workers+=("$host")
done <"$OMPI_MCA_orte_default_hostfile"

# What ranks are to be told, by name: mpirun gives them no other variable.
told=()
for name in $(compgen -e); do
	case $name in
	MFU_* | GPU_* | NCCL_* | GLOO_* | CUDA_*) told+=(-x "$name") ;;
	esac
done

exec mpirun --allow-run-as-root -np $((${#workers[@]} * RANKS_PER_WORKER)) --map-by "ppr:$RANKS_PER_WORKER:node" --bind-to none \
	--mca routed direct --mca pml ob1 --mca btl tcp,self \
	-x MASTER_ADDR="${workers[0]}" -x MASTER_PORT=29500 "${told[@]}" \
	python3 /benchmark/train.py
