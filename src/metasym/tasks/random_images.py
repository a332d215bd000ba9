"""Random images of many tasks and what filter banks make of them: by ``random_images.cpp`` if it can be compiled.

The images are the same either way, bit for bit: those of NumPy's generators. Before the compiled kernel is used its
numbers are compared with NumPy's, so that a new version of NumPy can cost speed but never changes the images.
"""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from metasym.native.compiled import library

SIDE = 3
"""Height and width of the filters that the kernel knows."""
_LOW = 2**64 - 1
_COMPARED = 2**16
"""How many numbers are compared: some seven hundred of them fall outside the inner part of their layer."""


def normal_images(
    generators: Sequence[np.random.Generator], examples: int, size: int, order: Tensor | None = None
) -> Tensor:
    """Standard normal numbers of each task's own generator, ``[examples, tasks, size, size]``.

    Place ``[p, t]`` holds the image that task t draws as number ``order[t, p]`` (as number p without ``order``). The
    generators are of no use afterwards.
    """
    tasks = len(generators)
    images = _POOL.take(examples, tasks, size, size)
    number = torch.arange(examples).expand(tasks, -1) if order is None else order
    kernels = _kernels()
    if kernels is None or not _fill(kernels, generators, images, number):
        for t, generator in enumerate(generators):
            drawn = generator.standard_normal((examples, size, size), dtype=np.float32)
            images[:, t] = torch.from_numpy(drawn)[number[t]]
    return images


def convolve(banks: Tensor, images: Tensor) -> Tensor:
    """Images ``[examples, tasks, s, s]`` with each task's bank ``[tasks, out, 1, k, k]``.

    Gives ``[tasks, examples, out, s - k + 1, s - k + 1]``, stored with the channels before the examples.
    """
    examples, tasks, size, _ = images.shape
    out, k = banks.shape[1], banks.shape[3]
    places = size - k + 1
    y = _POOL.take(tasks, out, examples, places, places)
    kernels = library(_SOURCE) if k == SIDE else None
    if kernels is None:
        for bank, own, into in zip(banks, images.transpose(0, 1), y, strict=True):
            into.copy_(F.conv2d(own.unsqueeze(1), bank).transpose(0, 1))
    else:
        sizes = (ctypes.c_int64 * 4)(tasks, examples, size, out)
        held = [t.contiguous() for t in (images, banks)]
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*held, y)]
        kernels.convolve_banks(sizes, *pointers, torch.get_num_threads())
    return y.transpose(1, 2)


class _Pooled(np.ndarray[tuple[int, ...], np.dtype[np.float32]]):
    """An array that can be referred to weakly, as plain arrays cannot."""


class Pool:
    """Memory of tensors that are no longer in use, kept for the next tensors of the same size.

    A step's outputs are 55 MB. If their memory went back to the system, it would be cleared page by page when it is
    asked for again, which takes as long as computing the outputs.
    """

    MOST = 4
    """Blocks that are kept: those of support and query sets, at training and at test."""

    def __init__(self) -> None:
        self._free: list[npt.NDArray[np.float32]] = []

    def take(self, *shape: int) -> Tensor:
        """A tensor of this shape, its entries anything."""
        count = math.prod(shape)
        index = next((i for i, memory in enumerate(self._free) if memory.size == count), None)
        # NumPy asks for large pages: clearing small ones takes three times as long as the convolution.
        memory = np.empty(count, dtype=np.float32) if index is None else self._free.pop(index)
        held = memory.view(_Pooled)
        # Whatever shares the tensor's memory keeps ``held`` alive; when the last of them goes, the memory comes back.
        weakref.finalize(held, self._put, memory).atexit = False
        return torch.from_numpy(held).view(shape)

    def _put(self, memory: npt.NDArray[np.float32]) -> None:
        self._free.append(memory)
        del self._free[: -self.MOST]


_POOL = Pool()
_SOURCE = Path(__file__).with_name("random_images.cpp")


def _fill(
    kernels: ctypes.CDLL, generators: Sequence[np.random.Generator], images: Tensor, number: Tensor
) -> bool:
    """Whether the kernel knows these generators: 128 bits of state, no half of a word left over."""
    words: list[int] = []
    for generator in generators:
        held = generator.bit_generator.state
        if held.get("bit_generator") != "PCG64" or held["has_uint32"]:
            return False
        state, step = held["state"]["state"], held["state"]["inc"]
        words += [state >> 64, state & _LOW, step >> 64, step & _LOW]
    examples, tasks = images.shape[:2]
    count = images[0, 0].numel()
    places = number.argsort(1) * tasks + torch.arange(tasks).unsqueeze(
        1
    )  # of each drawn image, [tasks, examples]
    into = images.data_ptr() + places.numpy() * (count * images.element_size())
    states = np.array(words, dtype=np.uint64)
    sizes = (ctypes.c_int64 * 3)(tasks, examples, count)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (states, np.ascontiguousarray(into))]
    kernels.fill_normals(sizes, *pointers, torch.get_num_threads())
    return True


@functools.cache
def _kernels() -> ctypes.CDLL | None:
    """The kernel, if it could be compiled and its numbers are NumPy's."""
    found = library(_SOURCE)
    if found is None:
        return None
    generator = np.random.Generator(np.random.PCG64(0))
    ours = torch.empty(1, 1, _COMPARED)
    known = _fill(found, [generator], ours, torch.zeros(1, 1, dtype=torch.int64))
    theirs = torch.from_numpy(generator.standard_normal(_COMPARED, dtype=np.float32))
    return found if known and torch.equal(ours[0, 0], theirs) else None
