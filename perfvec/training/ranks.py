"""The processes that train one model together, as torchrun starts them; one process is the usual case.

torchrun tells each process its place in the environment (RANK, WORLD_SIZE, LOCAL_RANK). GPUs talk through nccl,
processors through gloo.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
from torch import Tensor, distributed

from support.errors import InputError

_PATIENCE = timedelta(days=7)  # the others wait while the first one makes the shards


@dataclass(frozen=True)
class Ranks:
    """This process's place among `count`, and the device it computes on."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Block until all processes have called this."""
        if self.count > 1:
            distributed.barrier()

    @contextmanager
    def first_ahead(self) -> Iterator[None]:
        """The others enter when the first process, which makes the files that all read, has left."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def total(self, values: Tensor) -> Tensor:
        """The sum of all processes' `values`."""
        if self.count > 1:
            values = values.to(self.device)
            distributed.all_reduce(values)
        return values.cpu()


def device_of(name: str) -> torch.device:
    """`auto` (cuda where there is a GPU), `cpu`, `cuda` or `cuda:N`. Raises InputError where it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"unknown device {name!r}; expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r}: PyTorch sees {torch.cuda.device_count()} GPUs here; use --device cpu")
    return device


@contextmanager
def processes(device_name: str = "auto") -> Iterator[Ranks]:
    """Join the processes that torchrun started, or be alone."""
    device = device_of(device_name)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if device.type == "cuda":
        _make_deterministic()
    if count == 1:
        yield Ranks(device=device)
        return
    if device.type == "cuda":
        device = device_of(f"cuda:{os.environ['LOCAL_RANK']}")
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Ranks(distributed.get_rank(), count, device)
    finally:
        distributed.destroy_process_group()


def _make_deterministic() -> None:
    """The same seed gives the same weights on a GPU too (cuBLAS reads the variable when it is first used)."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
