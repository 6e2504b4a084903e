# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a stack of square linear layers as one rank of several, and says what share of its
GPU's peak a step was (model FLOPs utilisation).

Ranks are told who they are by torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK) or by
mpirun's, and where rank 0 waits by MASTER_ADDR and MASTER_PORT. NCCL and gloo are told the
interface by their own. Rank 0 prints the line MFU_RESULT at the end, and it alone.

A step of one rank is 6*batch*hidden^2*layers floating-point operations: two for each weight
and row forward, and four backward.
"""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def number(name, default):
    value = int(os.environ.get(name, default))
    if value < 1:
        raise SystemExit(f"{name}={value}: want a whole number above 0")
    return value


def of_launcher(name, of_mpirun, default=None):
    for variable in (name, of_mpirun):
        if variable in os.environ:
            return int(os.environ[variable])
    if default is None:
        raise SystemExit(f"neither {name} nor {of_mpirun} is set: start this by torchrun or mpirun")
    return default


def main():
    rank = of_launcher("RANK", "OMPI_COMM_WORLD_RANK")
    world = of_launcher("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
    local = of_launcher("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", 0)
    batch, hidden = number("MFU_BATCH_SIZE", 4096), number("MFU_HIDDEN_SIZE", 8192)
    layers, steps = number("MFU_LAYERS", 12), number("MFU_STEPS", 20)
    warmup = number("MFU_WARMUP_STEPS", 5)

    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(local)
        backend, device, dtype, name = "nccl", torch.device("cuda", local), torch.bfloat16, torch.cuda.get_device_name(local)
    else:
        backend, device, dtype, name = "gloo", torch.device("cpu"), torch.float32, "CPU"
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    # Whoever knows the GPU's peak may say so. Without it the share is of 1 TFLOP/s, which is
    # nobody's peak; plumbline bench computes it from the step anyway.
    peak = float(os.environ.get("GPU_PEAK_TFLOPS", 1))

    dist.init_process_group(backend, init_method="env://", rank=rank, world_size=world)
    torch.manual_seed(rank)
    model = torch.nn.Sequential(*(torch.nn.Linear(hidden, hidden, bias=False) for _ in range(layers)))
    model = DistributedDataParallel(model.to(device=device, dtype=dtype), device_ids=[local] if gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = torch.randn(batch, hidden, device=device, dtype=dtype)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(rows).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    def now():
        if gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    for _ in range(warmup):
        step()
    dist.barrier()
    began = now()
    for _ in range(steps):
        loss = step()
    milliseconds = (now() - began) * 1000 / steps

    if rank == 0:
        tflops = 6 * batch * hidden**2 * layers / (milliseconds * 1e9)
        print(
            f"MFU_RESULT backend={backend} device={name!r} world_size={world} dtype={'bf16' if gpu else 'fp32'}"
            f" batch_size={batch} hidden_size={hidden} layers={layers} avg_step_ms={milliseconds:.3f}"
            f" tflops_per_gpu={tflops:.6f} peak_tflops_per_gpu={peak} mfu_percent={100 * tflops / peak:.4f}"
            f" final_loss={loss.item():.6f}",
            flush=True,
        )
    # Nobody goes before all have been told the last gradients.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
