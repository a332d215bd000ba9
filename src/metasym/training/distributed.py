"""The processes of a run under ``torchrun``: who they are, and the few messages they exchange."""

from __future__ import annotations

import atexit
import importlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from metasym.errors import LostRankError, MetasymError

T = TypeVar("T")

TIMEOUT_SECONDS = 45
"""How long a rank waits for the others: a rank that died or hangs ends the run within a minute."""


@dataclass(frozen=True)
class Ranks:
    """Where this process stands among those of the run. Alone (``size`` 1), every method is the identity."""

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Which of ``count`` tasks are this rank's: consecutive ones. Ranks' shares differ by at most one task."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Every tensor summed over the ranks: one message, the same bits on every rank."""
        if self.size == 1:
            return list(tensors)
        flat = torch.cat([t.reshape(-1) for t in tensors])
        self._talk(lambda: dist.all_reduce(flat))
        parts = flat.split([t.numel() for t in tensors])
        return [p.view(t.shape).to(t.dtype) for p, t in zip(parts, tensors, strict=True)]

    def copy_from_main(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite every tensor, in place, by rank 0's."""
        if self.size > 1:
            for tensor in tensors:
                buffer = tensor.detach().contiguous()
                self._talk(partial(dist.broadcast, buffer, src=0))
                tensor.detach().copy_(buffer)

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in their order, on rank 0; empty elsewhere."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.main else None
        self._talk(lambda: dist.gather_object(value, values))
        return values or []

    def on_main(self, work: Callable[[], T]) -> T:
        """On every rank, what ``work()`` returns on rank 0; every rank also raises its ``MetasymError``, if any."""
        if self.size == 1:
            return work()
        message: list[Any] = [None, None]
        if self.main:
            try:
                message[0] = work()
            except MetasymError as error:
                message[1] = error
        self._talk(lambda: dist.broadcast_object_list(message, src=0))
        if message[1] is not None:
            raise message[1]
        return message[0]  # type: ignore[no-any-return]

    def _talk(self, collective: Callable[[], object]) -> None:
        try:
            collective()
        except RuntimeError as error:
            raise LostRankError(
                f"rank {self.rank} of {self.size}: expected every rank to answer, found one gone ({_gist(error)})",
                about=f"rank {self.rank}",
                found=_gist(error),
            ) from None


def pick_device(device: str | torch.device | None, default: torch.device) -> torch.device:
    """The device to train on: this process's own GPU for ``"cuda"``, ``default`` for ``None``.

    Others are refused: Apple's and Intel's GPUs lack float64, in which losses are summed.
    """
    try:
        chosen = default if device is None else torch.device(device)
    except (RuntimeError, TypeError):
        raise MetasymError(
            f"expected a device such as 'cpu' or 'cuda', found {device!r}", about="device", found=device
        ) from None
    if chosen.type not in ("cpu", "cuda"):
        raise MetasymError(
            f"expected a device 'cpu' or 'cuda', found {str(chosen)!r}", about="device", found=str(chosen)
        )
    if chosen.type == "cuda":
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise MetasymError(
                f"expected a CUDA device for device={str(device)!r}, found {torch.cuda.device_count() or 'none'}",
                about="device",
                found=torch.cuda.device_count(),
            )
        if chosen.index is None:
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    return chosen


def ranks_of_run() -> int:
    """How many processes the run has, whether they have joined yet or not."""
    if not dist.is_available():
        return 1
    if dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def connect(device: torch.device) -> Ranks:
    """Join the other processes that ``torchrun`` started (gloo on CPU, nccl on GPU); alone without it.

    A process group that the program has made itself is used as it is, for example one with a longer timeout
    for steps that take minutes. Every rank has to call this.
    """
    if not dist.is_available():
        return Ranks()
    if not dist.is_initialized():
        if ranks_of_run() == 1:
            return Ranks()
        # Torch imports this module late, by itself, and the defaults of its functions hold the group that exists
        # at that time. That group would outlive its destruction and crash the process at exit.
        importlib.import_module("torch.distributed.nn.functional")
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(backend, timeout=timedelta(seconds=TIMEOUT_SECONDS))
        except (RuntimeError, ValueError) as error:
            said = _gist(error)
            raise LostRankError(
                f"expected the other ranks to join, found {said}", about="ranks", found=said
            ) from None
        atexit.register(_leave)
    return Ranks(dist.get_rank(), dist.get_world_size())


def is_main() -> bool:
    """Whether this process is the one that speaks for the run: alone, or rank 0 of those that joined."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def _gist(error: Exception) -> str:
    """The first sentence of what a backend says, without the place in its sources."""
    return re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip().splitlines()[0]).split(". ")[0]


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
