"""Labelled images, class by class, and how classes are split into training, validation and test."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.tasks.sampling import check_seed, mix
from metasym.types import MetasymError

Images = npt.NDArray[Any]

SPLITS = ("train", "val", "test")
QUARTERS = 4
_SPLIT = 11


class ImageClasses:
    """Images ``[images, channels, height, width]`` of many classes, those of a class one after the other.

    ``images`` may be memory-mapped: only what an episode needs is read. Class c owns the images
    ``first[c] .. first[c] + counts[c] - 1``, turned by ``quarters[c]`` times 90 degrees (counter-clockwise).
    A rotated copy of a class can thus be a class of its own without being stored. Pixels are sampled as
    float32; those of type uint8 are divided by 255, others are taken as they are.
    """

    @checked
    def __init__(
        self,
        images: Images,
        first: Tensor,
        counts: Tensor,
        names: Sequence[str],
        *,
        quarters: Tensor | None = None,
    ) -> None:
        if images.ndim != 4:
            raise MetasymError(
                f"expected images of shape [images, channels, height, width], found {list(images.shape)}",
                about="images",
                found=tuple(images.shape),
            )
        if not len(first) == len(counts) == len(names) or len(names) == 0:
            raise MetasymError(
                f"expected at least one class, each with a name, found {len(names)} names",
                about="names",
                found=len(names),
            )
        self.images, self.first, self.counts, self.names = images, first, counts, list(names)
        self.quarters = torch.zeros_like(first) if quarters is None else quarters

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        images, shape = int(self.counts.sum()), list(self.images.shape[1:])
        return f"ImageClasses({len(self.counts)} classes, {images} images of {shape})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(channels, height, width)`` of an image."""
        _, channels, height, width = self.images.shape
        return int(channels), int(height), int(width)

    def pick(self, classes: Tensor, places: Tensor) -> Tensor:
        """Image ``places`` of class ``classes`` (broadcast together, int64): ``[..., C, H, W]``, float32."""
        classes, places = torch.broadcast_tensors(classes, places)
        rows = (self.first[classes] + places).flatten()
        found = torch.from_numpy(np.ascontiguousarray(self.images[rows.numpy()]))
        found = found if found.dtype == torch.uint8 else found.float()
        turned = self.quarters[classes].flatten()
        for times in torch.unique(turned[turned > 0]).tolist():
            these = turned == times
            found[these] = torch.rot90(found[these], times, dims=(2, 3))
        pixels = found.float().div_(255) if found.dtype == torch.uint8 else found
        return pixels.view(*classes.shape, *self.shape)

    def subset(self, ids: Sequence[int] | Tensor) -> ImageClasses:
        """The classes ``ids``, in that order; no image is copied."""
        chosen = torch.as_tensor(ids, dtype=torch.int64)
        if chosen.ndim != 1 or len(chosen) == 0 or int(chosen.min()) < 0 or int(chosen.max()) >= len(self):
            raise MetasymError(
                f"expected a list of classes 0 to {len(self) - 1}, found {chosen.tolist()!s:.60}",
                about="ids",
                found=chosen.tolist(),
            )
        names = [self.names[i] for i in chosen.tolist()]
        return ImageClasses(
            self.images, self.first[chosen], self.counts[chosen], names, quarters=self.quarters[chosen]
        )

    def split(self, *sizes: int | float, seed: int = 0) -> list[ImageClasses]:
        """Cut the classes into parts of ``sizes``, at random but equal in every process.

        Whole numbers are numbers of classes, fractions are fractions of all classes. Where those do not come out
        even, the ends of the parts are rounded, so that parts of 1/2 and 1/2 hold all classes. Classes that are left
        over are in no part. The cut depends on ``seed`` and on the number of classes alone.
        """
        check_seed(seed)
        if not sizes or not all(_is_size(size) for size in sizes):
            raise MetasymError(
                f"expected sizes of parts, numbers or fractions of classes, found {sizes}",
                about="sizes",
                found=sizes,
            )
        exact = [size if isinstance(size, numbers.Integral) else size * len(self) for size in sizes]
        ends = [round(end) for end in itertools.accumulate(exact)]
        wanted = [end - start for start, end in itertools.pairwise([0, *ends])]
        if min(wanted) < 1 or ends[-1] > len(self):
            raise MetasymError(
                f"expected parts of at least one class and of at most {len(self)} together, found {wanted}",
                about="sizes",
                found=wanted,
            )
        order = mix(seed, _SPLIT, torch.arange(len(self))).argsort()
        return [
            self.subset(order[end - size : end].sort().values) for size, end in zip(wanted, ends, strict=True)
        ]

    def with_rotations(self) -> ImageClasses:
        """Four times as many classes: each class turned by 0, 90, 180 and 270 degrees.

        Split first: a class and its turned copies belong in the same part.
        """
        _, height, width = self.shape
        if height != width:
            raise MetasymError(
                f"expected square images to turn by 90 degrees, found {height} x {width}",
                about="images",
                found=(height, width),
            )
        turns = torch.arange(QUARTERS).repeat_interleave(len(self))
        return ImageClasses(
            self.images,
            self.first.repeat(QUARTERS),
            self.counts.repeat(QUARTERS),
            [f"{name} ({90 * i})" if i else name for i in range(QUARTERS) for name in self.names],
            quarters=(self.quarters.repeat(QUARTERS) + turns) % QUARTERS,
        )


def from_arrays(images: Images | Tensor, labels: Images | Tensor | Sequence[Any]) -> ImageClasses:
    """Return classes from images and labels.

    Args:
        images: ``[n, C, H, W]`` or ``[n, H, W]``.
        labels: ``[n]``, numbers or texts.
    """
    pixels, keys = _array(images, "images"), _array(labels, "labels")
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    if keys.ndim != 1 or pixels.ndim != 4 or len(keys) != len(pixels) or len(keys) == 0:
        raise MetasymError(
            "expected images [n, C, H, W] or [n, H, W] and labels [n], "
            f"found {list(np.shape(images))} and {list(np.shape(keys))}",
            about="images, labels",
            found=(np.shape(images), np.shape(keys)),
        )
    if keys.dtype.kind not in "iubU" or pixels.dtype.kind not in "uif":
        raise MetasymError(
            f"expected images of numbers and labels of whole numbers or texts, found {pixels.dtype} and {keys.dtype}",
            about="images, labels",
            found=(str(pixels.dtype), str(keys.dtype)),
        )
    if not pixels.dtype.isnative:
        pixels = pixels.astype(pixels.dtype.newbyteorder("="))
    order = np.argsort(keys, kind="stable")
    found, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    if not (order == np.arange(len(order))).all():
        pixels = pixels[order]
    return ImageClasses(
        pixels, torch.from_numpy(first), torch.from_numpy(counts), [str(name) for name in found]
    )


def _is_size(size: Any) -> bool:
    return isinstance(size, numbers.Real) and not isinstance(size, bool) and math.isfinite(size)


def _array(values: Any, name: str) -> Images:
    """Values as an array that NumPy can hold; bfloat16, which it cannot, as float32."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.dtype == torch.bfloat16 else values)
    try:
        return np.asarray(values)
    except ValueError:
        raise MetasymError(
            f"expected {name} of one shape, found a ragged list", about=name, found="a ragged list"
        ) from None
