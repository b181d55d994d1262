"""Several processes that train one network on different chats: `torchrun --nproc-per-node N -m models.tiny.recipe`."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class Workers:
    """This process's place among all."""

    rank: int = 0
    count: int = 1

    def average(self, network: nn.Module) -> None:
        """Replace the gradients by their mean over all processes."""
        if self.count > 1:
            gradients = [p.grad for p in network.parameters() if p.grad is not None]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat)
            for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(mean.view_as(gradient)).div_(self.count)

    def agree(self, value: float) -> float:
        """The first process's value."""
        if self.count == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)


def join() -> Workers:
    """The processes that torchrun started, or this one alone."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count > 1:
        dist.init_process_group("gloo")
        return Workers(dist.get_rank(), count)
    return Workers()
