"""Seeds for tasks, and episodes from any task family.

Every random choice belongs to a (seed, step, position) triple, not to the state of a running
generator: a resumed run, a run on four processes and a run in chunks then draw the same numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.errors import in_one_line
from metasym.types import Batch, Episode, MetasymError, Tasks

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST, _ONE = np.uint64(31), np.uint64(1)
_BITS = 2**64 - 1


def _splitmix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One round of the SplitMix64 finaliser on uint64 values: a bijection that scatters all bits."""
    z = state + _GOLDEN
    for shift, factor in _ROUNDS:
        z ^= z >> shift
        z *= factor
    z ^= z >> _LAST
    return z


def _splitmix_one(state: int) -> int:
    """The same round on one Python integer: twenty times as fast as on a NumPy scalar."""
    z = (state + 0x9E3779B97F4A7C15) & _BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _BITS
    return z ^ (z >> 31)


@checked
def mix(*parts: int | Tensor) -> Tensor:
    """Scatter whole numbers into seeds ``[...]``, int64 >= 0.

    The result depends on the values and their order only: it is the same on every machine.

    Args:
        parts: Scalars or int64 tensors, broadcast together.
    """
    state: int | npt.NDArray[np.uint64] = 0
    with np.errstate(over="ignore"):
        for part in parts:
            if isinstance(state, int) and not isinstance(part, Tensor) and -(2**63) <= part < 2**63:
                state = _splitmix_one(state ^ (int(part) & _BITS))
                continue
            array = np.asarray(part.numpy() if isinstance(part, Tensor) else part, dtype=np.int64)
            state = _splitmix(np.asarray(state, dtype=np.uint64) ^ array.view(np.uint64))
    if isinstance(state, int):
        return torch.tensor(state >> 1)
    return torch.from_numpy(np.asarray(state >> _ONE).view(np.int64))


@checked
def seeded(seed: int) -> torch.Generator:
    """Return a CPU generator that starts at ``seed``.

    Args:
        seed: The seed.
    """
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


def check_seed(seed: int) -> None:
    """Refuse what cannot be mixed into seeds: anything but a whole number of 64 bits."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not -(2**63) <= seed < 2**63:
        raise MetasymError(
            f"expected seed to be a whole number of 64 bits, found {seed!r}", about="seed", found=seed
        )


def stack(episodes: Sequence[Episode], ids: Sequence[int] | None = None) -> Episode:
    """Episodes of single tasks, stacked along a new leading dimension; errors name the task by ``ids``."""
    names = range(len(episodes)) if ids is None else ids
    kinds = []
    for index, episode in zip(names, episodes, strict=True):
        check_episode(episode, f"task {index}", leading=())
        kinds.append([(p.x.shape, p.x.dtype, p.y.shape, p.y.dtype) for p in episode[:2]])
        if kinds[-1] != kinds[0]:
            raise MetasymError(
                f"task {index}: expected an episode of the shapes and types of task {names[0]}'s, "
                f"{describe(episodes[0])}, found {describe(episode)}",
                about=f"task {index}",
                found=describe(episode),
            )
    return Episode(
        Batch(torch.stack([e.support.x for e in episodes]), torch.stack([e.support.y for e in episodes])),
        Batch(torch.stack([e.query.x for e in episodes]), torch.stack([e.query.y for e in episodes])),
        torch.stack([torch.as_tensor(e.ids, dtype=torch.int64) for e in episodes]),
    )


@checked
def sample(tasks: Tasks, ids: Tensor, seed: int) -> Episode:
    """Draw the episodes of some tasks. What is drawn for each depends on its id and ``seed``.

    Args:
        tasks: A family of tasks.
        ids: Their numbers ``[tasks]``.
        seed: The seed.
    """
    seeds = mix(seed, ids)
    batched = getattr(tasks, "episodes", None)
    if batched is not None:
        found = _method(tasks, "episodes")(ids, seeds)
        return check_episode(found, _Some(ids), leading=tuple(ids.shape))
    make, numbers = _method(tasks, "episode"), ids.tolist()
    return stack([make(i, seeded(s)) for i, s in zip(numbers, seeds.tolist(), strict=True)], numbers)


def check_episode(found: Any, name: object, *, leading: tuple[int, ...]) -> Episode:
    """Refuse what a task family must not return, by types and shapes alone; ``str(name)`` is what errors call it.

    ``leading`` is ``()`` for the episode of one task, ``(tasks,)`` for those of many.
    """
    if not isinstance(found, Episode):
        raise MetasymError(
            f"{name}: expected a metasym.Episode, found {type(found).__name__}",
            about=str(name),
            found=type(found).__name__,
        )
    for part, batch in (("support", found.support), ("query", found.query)):
        if not isinstance(batch, Batch):
            raise MetasymError(
                f"{name}: expected {part} to be a metasym.Batch, found {type(batch).__name__}",
                about=f"{name}: {part}",
                found=type(batch).__name__,
            )
        for side, value in (("x", batch.x), ("y", batch.y)):
            if not isinstance(value, Tensor):
                raise MetasymError(
                    f"{name}: expected {part}.{side} to be a tensor, found {type(value).__name__}",
                    about=f"{name}: {part}.{side}",
                    found=type(value).__name__,
                )
            if value.ndim <= len(leading) or tuple(value.shape[: len(leading)]) != leading:
                shape = "".join(f"{size}, " for size in leading)
                raise MetasymError(
                    f"{name}: expected {part}.{side} of shape [{shape}examples, ...], found {list(value.shape)}",
                    about=f"{name}: {part}.{side}",
                    found=tuple(value.shape),
                )
        examples = batch.x.shape[len(leading)], batch.y.shape[len(leading)]
        if examples[0] != examples[1] or examples[0] < 1:
            raise MetasymError(
                f"{name}: expected {part} with at least one example and as many of y as of x, "
                f"found {examples[0]} of x and {examples[1]} of y",
                about=f"{name}: {part}",
                found=tuple(examples),
            )
    _check_ids(found.ids, name, leading)
    return found


def _check_ids(ids: Any, name: object, leading: tuple[int, ...]) -> None:
    if isinstance(ids, int) and not leading:
        return
    if not isinstance(ids, Tensor) or ids.is_floating_point() or tuple(ids.shape) != leading:
        found = (ids.dtype, tuple(ids.shape)) if isinstance(ids, Tensor) else type(ids).__name__
        shown = f"{ids.dtype} {list(ids.shape)}" if isinstance(ids, Tensor) else found
        raise MetasymError(
            f"{name}: expected ids to be a tensor of whole numbers {list(leading)}, found {shown}",
            about=f"{name}: ids",
            found=found,
        )


def describe(episode: Episode) -> str:
    """Shapes and types of an episode, on one line."""
    return ", ".join(
        f"{part} {side} {list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        for part, batch in (("support", episode.support), ("query", episode.query))
        for side, value in (("x", batch.x), ("y", batch.y))
    )


@contextlib.contextmanager
def explained(episodes: Episode, where: str) -> Iterator[None]:
    """Turns torch's errors about shapes, types and labels into one line that also describes the episodes."""
    try:
        yield
    except (MetasymError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, IndexError, ValueError) as error:
        said = in_one_line(error)
        raise MetasymError(
            f"{where}: expected episodes that fit the model and the loss, found {said} "
            f"(of {episodes.count} tasks: {describe(episodes)})",
            about=where,
            found=describe(episodes),
        ) from error


def _method(tasks: Tasks, name: str) -> Any:
    found = getattr(tasks, name, None)
    if not callable(found):
        raise MetasymError(
            f"expected tasks with a method {name}, found "
            f"{type(tasks).__name__} {'without one' if found is None else f'with {name} = {found!r:.40}'}",
            about=f"{type(tasks).__name__}.{name}",
            found=found,
        )
    return found


class _Some:
    """What errors call the tasks ``ids``; made into text only when there is an error."""

    def __init__(self, ids: Tensor) -> None:
        self.ids = ids

    def __str__(self) -> str:
        numbers = [str(i) for i in self.ids[:5].tolist()]
        return "tasks " + ", ".join(numbers) + (", ..." if len(self.ids) > 5 else "")
