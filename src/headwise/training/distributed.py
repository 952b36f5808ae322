"""One process or many: who computes which part, and how their parts become one.

`torchrun --nproc-per-node 2 -m headwise train ...` starts several; each gets the weights whole (DDP, Li et al. 2020)
or, `sharded = true`, a share of every matrix (FSDP2, Zhao et al. 2023).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from headwise.errors import TrainingError
from headwise.transformer.block import Block


class Processes:
    """All processes of this run; alone where torchrun did not start it."""

    def __init__(self) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        local = int(os.environ.get("LOCAL_RANK", "0"))
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", local) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        if self.count > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if cuda else "gloo")

    @property
    def first(self) -> bool:
        """Whether this one writes files and speaks."""
        return self.rank == 0

    def close(self) -> None:
        """Leave the others."""
        if self.count > 1 and distributed.is_initialized():
            distributed.destroy_process_group()

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            distributed.barrier()

    def wrap(self, learner: nn.Module, sharded: bool) -> nn.Module:
        """The learner as all processes compute it together."""
        if not sharded:
            return learner if self.count == 1 else DistributedDataParallel(learner)
        if self.count == 1:
            raise TrainingError("sharded: got one process, wanted several: torchrun --nproc-per-node 2 -m headwise ...")
        mesh = init_device_mesh(self.device.type, (self.count,))
        for module in learner.modules():
            if isinstance(module, Block):
                fully_shard(module, mesh=mesh)
        fully_shard(learner, mesh=mesh)
        return learner

    def gathering(self, learner: nn.Module, last: bool) -> Any:
        """Within it gradients are added up here; those of all processes meet at the last part of a step."""
        if isinstance(learner, DistributedDataParallel) and not last:
            return learner.no_sync()
        if hasattr(learner, "set_requires_gradient_sync"):
            learner.set_requires_gradient_sync(last)  # type: ignore[operator]
        return nullcontext()

    def sum(self, *values: float) -> list[float]:
        """The sums over all processes."""
        if self.count == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return total.tolist()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensor of every process."""
        if self.count == 1:
            return [tensor]
        here = tensor.to(self.device)
        found = [torch.empty_like(here) for _ in range(self.count)]
        distributed.all_gather(found, here)
        return [one.cpu() for one in found]


def clip(parameters: Iterable[nn.Parameter], limit: float) -> float:
    """Scale the gradients down to this norm where they are longer; gives the norm they had."""
    norm = nn.utils.clip_grad_norm_(parameters, limit or float("inf"), foreach=True)
    return float(whole(norm))


def whole(tensor: Tensor) -> Tensor:
    """The tensor with the shares of all processes."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(full: Tensor, own: Tensor) -> Tensor:
    """This process's share of a whole tensor, laid out as another one."""
    if isinstance(own, DTensor):
        return distribute_tensor(full.to(own.device), own.device_mesh, own.placements)
    return full.to(own.device)
