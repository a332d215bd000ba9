"""Families of tasks with a symmetry planted in them: random equivariant maps of a group, random inputs.

They serve to try out what ``metasym learn`` finds: nothing but the examples reveals the group.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups import (
    Group,
    cyclic,
    dihedral,
    equivariant_basis,
    from_generators,
    shifts,
    symmetric,
    trivial,
)
from metasym.tasks.synthetic import rotation_basis, translation_basis
from metasym.types import Batch, MetasymError

FAMILIES = (
    "shifts12",
    "dihedral10",
    "reflection10",
    "blocks9",
    "grid10",
    "signed8",
    "none8",
    "translation",
    "rot90",
    "rot45",
)
"""The families that :func:`planted` knows by name."""


def planted_group(name: str) -> Group | None:
    """The group of a fully connected family, acting in the same way on inputs and outputs; None where there is none.

    ``shifts12``: circular shifts of 12 points. ``dihedral10``: rotations and reflections of 10 points on a circle,
    of order 20. ``reflection10``: 10 points reversed. ``blocks9``: S_3 permuting 3 blocks of 3. ``grid10``: shifts
    of a 2 x 5 grid. ``signed8``: shifts of 8 points where what leaves at the end comes back with its sign changed (of
    order 16; 8 up to the sign, which no linear layer sees). ``none8``: 8 points, no symmetry.
    """
    if name == "signed8":
        turn = torch.zeros(8, 8, dtype=torch.float64)
        turn[torch.arange(1, 8), torch.arange(7)] = 1
        turn[0, 7] = -1
        return from_generators([turn], name="signed shifts")
    makers = {
        "shifts12": lambda: shifts(12),
        "dihedral10": lambda: dihedral(10),
        "reflection10": lambda: from_generators([list(range(9, -1, -1))], name="reflection"),
        "blocks9": lambda: symmetric(3).product(trivial(3), "product"),
        "grid10": lambda: cyclic(2).product(cyclic(5), "product"),
        "none8": lambda: trivial(8),
    }
    return makers[name]() if name in makers else None


def planted_basis(name: str) -> Tensor:
    """The weights that a family's symmetry allows, ``[prod(weight), d]`` with orthonormal columns, float64."""
    if name == "translation":
        orthonormal: Tensor = torch.linalg.qr(translation_basis(torch.ones(68, 1, dtype=torch.float64))).Q
        return orthonormal
    if name in ("rot90", "rot45"):
        return rotation_basis(name).orthonormal()
    group = planted_group(name)
    if group is None:
        raise MetasymError(
            f"expected a family of {', '.join(FAMILIES)}, found {name!r}", about="family", found=name
        )
    return equivariant_basis(group, group)


@checked
def planted(
    name: str,
    *,
    tasks: int = 500,
    examples: int = 20,
    noise: float = 0.0,
    broken: float = 0.0,
    seed: int = 0,
    image_size: int = 8,
) -> Batch:
    """Return the examples of a planted family: ``x [tasks, examples, n]`` and ``y [tasks, examples, m]``, float32.

    Each task draws a weight in :func:`planted_basis` and inputs from N(0, 1). Outputs have a root mean square of
    about 1. The families ``rot90`` and ``rot45`` have images ``[tasks, examples, 1, s, s]`` and outputs
    ``[tasks, examples, channels, s - 2, s - 2]``.

    Args:
        name: Name of the family.
        tasks: Number of tasks.
        examples: Examples of a task.
        noise: Standard deviation of the noise added to the outputs.
        broken: Add to each task's weight a weight without any symmetry, this many times as large. The family then
            has its symmetry only nearly.
        seed: Seed of everything drawn.
        image_size: Height and width s of an image.

    Example:
        >>> import metasym as ms
        >>> data = ms.tasks.planted("shifts12", tasks=5)
        >>> tuple(data.x.shape), tuple(data.y.shape)
        ((5, 20, 12), (5, 20, 12))
    """
    if tasks < 1 or examples < 1 or not (0 <= noise < math.inf and 0 <= broken < math.inf):
        raise MetasymError(
            "expected at least one task and example, noise and broken >= 0, found "
            f"{tasks}, {examples}, {noise} and {broken}",
            about="tasks, examples, noise, broken",
            found=(tasks, examples, noise, broken),
        )
    basis = planted_basis(name)
    draw = np.random.Generator(np.random.PCG64(seed))
    shape = _weight_shape(name, len(basis))
    fan_in = math.prod(shape[1:])
    # Entries of the weights then have a mean square of 1 / fan-in.
    scale = math.sqrt(len(basis) / (basis.shape[1] * fan_in))
    coefficients = torch.from_numpy(draw.standard_normal((tasks, basis.shape[1])) * scale)
    weights = (coefficients @ basis.T).reshape(tasks, *shape)
    if broken:
        own = np.random.Generator(np.random.PCG64([seed, 1]))  # all else is drawn as without it
        weights = weights + broken / math.sqrt(fan_in) * torch.from_numpy(own.standard_normal(weights.shape))
    if len(shape) == 2:
        x = torch.from_numpy(draw.standard_normal((tasks, examples, shape[1])))
        y = x @ weights.mT
    else:
        images = draw.standard_normal((tasks, examples, *(image_size,) * 2))
        x = torch.from_numpy(images).unsqueeze(2)
        k = shape[-1]
        patches = x[:, :, 0].unfold(2, k, 1).unfold(3, k, 1)
        y = torch.einsum("tehwij,tcij->techw", patches, weights[:, :, 0])
    y = y + noise * torch.from_numpy(draw.standard_normal(tuple(y.shape)))
    return Batch(x.float(), y.float())


def _weight_shape(name: str, rows: int) -> tuple[int, ...]:
    if name == "translation":
        return (68, 70)
    if name in ("rot90", "rot45"):
        return tuple(rotation_basis(name).shape)
    side = math.isqrt(rows)
    return (side, side)
