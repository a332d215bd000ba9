"""Algorithm 2, augmentation meta-training: a transform of the query set, never of the support set.

``AugmentQuery`` wraps any task family and any transform of image batches. ``PaperTransform`` is the transform of
the paper's listing, with the arithmetic of torchvision on PIL images; ``kornia_transform`` is the same in kornia.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from metasym.argument_types import checked
from metasym.tasks.sampling import check_episode, mix, seeded, stack
from metasym.types import Batch, Episode, MetasymError, Tasks

Transform = Callable[..., Tensor]
"""``transform(images)`` or ``transform(images, generator=generator)``: images ``[n, ...]`` to as many images."""

_AUGMENT = 21
_SEEDS = 2**62
_TRIES = 10
"""How often torchvision draws a crop before it takes the whole image."""


@checked
def augment_query(episode: Episode, transform: Transform, generator: torch.Generator) -> Episode:
    """Transform the query images of one task (the paper's Algorithm 2). Everything else, the support set included,
    stays.

    Args:
        episode: One task.
        transform: Maps images to images. If it has a parameter ``generator``, it gets ``generator``. Any other may
            draw from torch's global generator (kornia's do), which is seeded from ``generator`` for the call and
            restored afterwards. What a transform draws elsewhere, from NumPy for example, is not seeded.
        generator: Source of the random numbers.
    """
    # A copy: a transform may work in place, and a sampler may return views of its own data.
    x = episode.query.x.clone()
    if _takes_generator(transform):
        found = transform(x, generator=generator)
    else:
        seed = int(torch.randint(_SEEDS, (), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            found = transform(x)
    if not isinstance(found, Tensor) or found.shape[:1] != x.shape[:1]:
        kind = f"shape {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise MetasymError(
            f"expected the transform of {len(x)} images to be {len(x)} images, found {kind}",
            about="transform",
            found=tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__,
        )
    return episode._replace(query=Batch(found, episode.query.y))


class AugmentQuery:
    """The tasks of ``tasks`` with ``transform`` applied to every query set (Algorithm 2).

    ``transform`` maps images ``[n, ...]`` to ``n`` images: a function, an ``nn.Module``, one of kornia's. An
    episode depends on its own seed alone, in every process and whatever other tasks are drawn with it. Where
    wrappers are nested, each transform draws its own numbers.
    """

    @checked
    def __init__(self, tasks: Tasks, transform: Transform) -> None:
        if not callable(transform):
            raise MetasymError(
                f"expected a transform that can be called, found {transform!r:.60}",
                about="transform",
                found=transform,
            )
        self.tasks, self.transform = tasks, transform
        self._level = 1 + sum(isinstance(one, AugmentQuery) for one in _wrapped(tasks))

    def __repr__(self) -> str:
        how = getattr(self.transform, "__name__", type(self.transform).__name__)
        return f"AugmentQuery({self.tasks!r:.300}, query sets by {how})"

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def scored(self) -> int | None:
        """How many tasks stand for all in a score, where the wrapped tasks have no end."""
        found: int | None = getattr(self.tasks, "scored", None)
        return found

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The episode of task ``index``; ``generator`` draws it, then its augmentation."""
        found = check_episode(self.tasks.episode(index, generator), f"task {index}", leading=())
        return augment_query(found, self.transform, generator)

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of tasks ``ids [tasks]``, each drawn and augmented by its own seed of ``seeds [tasks]``."""
        batched = getattr(self.tasks, "episodes", None)
        if batched is None:
            pairs = zip(ids.tolist(), seeds.tolist(), strict=True)
            return stack([self.episode(index, seeded(seed)) for index, seed in pairs], ids.tolist())
        plain: Episode = check_episode(batched(ids, seeds), "tasks", leading=tuple(ids.shape))
        queries = []
        # Task by task, so that neither the numbers drawn nor the order of sums depends on the batch.
        keys = seeds
        for _ in range(self._level):
            keys = mix(keys, _AUGMENT)
        for row, seed in enumerate(keys.tolist()):
            one = Episode(
                Batch(plain.support.x[row], plain.support.y[row]),
                Batch(plain.query.x[row], plain.query.y[row]),
                plain.ids[row],
            )
            queries.append(augment_query(one, self.transform, seeded(seed)).query.x)
        if any(query.shape != queries[0].shape for query in queries):
            shapes = [list(query.shape) for query in queries]
            raise MetasymError(
                f"expected the transform to give all tasks one shape, found {shapes!s:.80}",
                about="transform",
                found=shapes,
            )
        return plain._replace(query=Batch(torch.stack(queries), plain.query.y))


class PaperTransform:
    """Random resized crop, both flips, rotation: what the paper applies to query sets.

    Crop and rotation are two separate resamplings, as in the paper's listing: rotation does not bring back what
    the crop cut off. Each flip has probability 1/2.

    Args:
        size: Height and width of the result, with antialiasing. Default: that of the images.
        scale: Fraction of the area that the crop covers, from and to.
        ratio: Aspect ratio of the crop, from and to.
        flips: Whether to flip.
        degrees: Largest rotation either way, bilinear, with zeros where there is no image.
    """

    @checked
    def __init__(
        self,
        size: int | None = None,
        *,
        scale: tuple[float, float] = (0.8, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flips: bool = True,
        degrees: float = 30.0,
    ) -> None:
        if size is not None and (not isinstance(size, int) or size < 1):
            raise MetasymError(
                f"expected a size of at least 1 pixel, a whole number, found {size!r}",
                about="size",
                found=size,
            )
        if not _is_range(scale) or not _is_range(ratio) or scale[1] > 1:
            raise MetasymError(
                f"expected pairs 0 < low <= high (scale at most 1), found scale {scale!r}, ratio {ratio!r}",
                about="scale, ratio",
                found=(scale, ratio),
            )
        if not 0 <= degrees < math.inf:
            raise MetasymError(
                f"expected degrees of at least 0, found {degrees!r}", about="degrees", found=degrees
            )
        self.size, self.scale, self.ratio, self.flips, self.degrees = size, scale, ratio, flips, degrees

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """``images [n, C, H, W]``, float, to ``[n, C, size, size]``; every number is drawn from ``generator``."""
        if images.ndim != 4 or not images.is_floating_point():
            raise MetasymError(
                f"expected float images [n, C, H, W], found {images.dtype} {list(images.shape)}",
                about="images",
                found=(images.dtype, tuple(images.shape)),
            )
        count, _, height, width = images.shape
        boxes = self.draw_boxes(count, height, width, generator)
        flipped = torch.rand(count, 2, generator=generator) < 0.5
        angles = (torch.rand(count, generator=generator) * 2 - 1) * self.degrees
        flipped &= self.flips
        size = (height, width) if self.size is None else (self.size, self.size)
        return rotate(crop_and_flip(images, boxes, flipped, size), angles)

    def draw_boxes(self, count: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Crops ``[count, 4]`` as (top, left, height, width), whole numbers, drawn as torchvision does."""
        uniform = torch.rand(count, _TRIES + 1, 2, generator=generator, dtype=torch.float64)
        low, high = self.scale
        area = height * width * (low + (high - low) * uniform[:, :_TRIES, 0])
        logs = math.log(self.ratio[0]), math.log(self.ratio[1])
        aspect = (logs[0] + (logs[1] - logs[0]) * uniform[:, :_TRIES, 1]).exp()
        tall, wide = (area / aspect).sqrt().round(), (area * aspect).sqrt().round()
        fits = (tall >= 1) & (tall <= height) & (wide >= 1) & (wide <= width)
        # The first that fits; where none does, the whole image, cut to the nearest aspect ratio.
        at = fits.to(torch.int8).argmax(dim=1, keepdim=True)
        good = fits.any(dim=1)
        whole = self._whole(height, width)
        tall = torch.where(good, tall.gather(1, at)[:, 0], float(whole[0]))
        wide = torch.where(good, wide.gather(1, at)[:, 0], float(whole[1]))
        free = torch.stack([height - tall, width - wide], dim=1)
        corner = (uniform[:, _TRIES] * (free + 1)).floor().minimum(free)
        corner = torch.where(good.unsqueeze(1), corner, (free / 2).floor())
        return torch.cat([corner, tall.unsqueeze(1), wide.unsqueeze(1)], dim=1).long()

    def _whole(self, height: int, width: int) -> tuple[int, int]:
        if width / height < self.ratio[0]:
            return round(width / self.ratio[0]), width
        if width / height > self.ratio[1]:
            return height, round(height * self.ratio[1])
        return height, width


@checked
def paper_transform(size: int | None = None) -> PaperTransform:
    """Return the transform of the paper's listing.

    Args:
        size: 28 for Omniglot, 84 for MiniImagenet. Default: the images' own size.
    """
    return PaperTransform(size)


@checked
def kornia_transform(size: int) -> torch.nn.Module:
    """Return the paper's listing in kornia's transforms. It is slower, and mixes zeros into the border of a turned
    image.

    The transforms draw from torch's global generator, which :func:`augment_query` seeds for them.

    Args:
        size: Height and width of the result.
    """
    try:
        import kornia.augmentation as K  # takes a second
    except ImportError:
        raise MetasymError(
            "expected the package kornia for kornia_transform, found none: pip install 'metasym[kornia]'",
            about="kornia",
        ) from None

    return torch.nn.Sequential(
        K.RandomResizedCrop((size, size), scale=(0.8, 1.0), align_corners=False),
        K.RandomVerticalFlip(p=0.5),
        K.RandomHorizontalFlip(p=0.5),
        K.RandomRotation(30.0, p=1.0, align_corners=False),
    )


def crop_and_flip(images: Tensor, boxes: Tensor, flipped: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut ``boxes [n, 4]`` out of ``images [n, C, H, W]``, resize to ``size``, flip by ``flipped [n, 2]``.

    ``flipped`` is (upside down, left to right). Resizing is separable: two products with interpolation
    matrices, whose rows are turned round for a flip.
    """
    count, channels, height, width = images.shape
    rows = _resizing(boxes[:, 0], boxes[:, 2], height, size[0], flipped[:, 0]).to(images.dtype)
    columns = _resizing(boxes[:, 1], boxes[:, 3], width, size[1], flipped[:, 1]).to(images.dtype)
    narrow = torch.bmm(images.flatten(1, 2), columns.mT).view(count, channels, height, size[1])
    # Channel by channel: matmul would copy the rows' matrices for each channel.
    return torch.stack([torch.bmm(rows, channel) for channel in narrow.unbind(1)], dim=1)


def _resizing(start: Tensor, length: Tensor, available: int, size: int, flipped: Tensor) -> Tensor:
    """``[n, size, available]``: linear interpolation of a stretch of pixels, antialiased where it shrinks."""
    start, length = start.float()[:, None], length.float()[:, None]
    places = torch.arange(size) + 0.5
    centres = start + torch.where(flipped[:, None], size - places, places) * (length / size)
    pixels = torch.arange(available) + 0.5
    reach = (length / size).clamp(min=1)
    weights = ((pixels - centres.unsqueeze(-1)) / reach.unsqueeze(-1)).abs_().neg_().add_(1).clamp_(min=0)
    weights.mul_(((pixels > start) & (pixels < start + length)).unsqueeze(1))
    return weights.div_(weights.sum(dim=-1, keepdim=True))


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """``images [n, C, H, W]`` turned counter-clockwise by ``degrees [n]`` about their centres, bilinear.

    Zeros where the turned image does not reach; inside it, pixels at the border are not mixed with zeros.
    """
    count, _, height, width = images.shape
    angles = torch.deg2rad(degrees.double()).unsqueeze(1)
    # Where each pixel comes from: pixel centres, with the edges of the image at -1 and 1.
    x = ((torch.arange(width) * 2 + 1) / width - 1).double()
    y = ((torch.arange(height) * 2 + 1) / height - 1).double()
    grid = images.new_empty(count, height, width, 2)
    cos, sin = angles.cos(), angles.sin()
    for axis, (from_x, from_y) in enumerate(
        ((cos * x, -sin * y * (height / width)), (sin * x * (width / height), cos * y))
    ):
        torch.add(from_x.to(grid).unsqueeze(1), from_y.to(grid).unsqueeze(2), out=grid[..., axis])
    turned = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return turned.mul_((grid.abs().amax(dim=-1) <= 1).unsqueeze(1))


def _wrapped(tasks: Any) -> Iterator[Any]:
    """A task family and, where it wraps others, those others."""
    while tasks is not None:
        yield tasks
        tasks = getattr(tasks, "tasks", None)


def _is_range(pair: Any) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == 2 and 0 < pair[0] <= pair[1]


def _takes_generator(transform: Any) -> bool:
    call = transform.forward if isinstance(transform, torch.nn.Module) else transform
    try:
        return "generator" in inspect.signature(call).parameters
    except (TypeError, ValueError):  # a callable without a signature, such as one of an extension module
        return False
