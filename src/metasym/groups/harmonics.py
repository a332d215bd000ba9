"""Steerable kernels from circular harmonics: equivariant also at angles that do not map pixels to pixels.

A kernel is a function on the plane, sampled at the pixels. Its radial part is a Gaussian ring, its
angular part a circular harmonic ``cos(m t), sin(m t)`` below the ring's band limit. A rotation of the
plane only turns the harmonics of one frequency into each other, so the equivariant combinations are
found by averaging over the group, exactly, at any angle. Rings, widths, band limits, the order of the
elements, axes, normalisation and the standard deviations of the start are e2cnn's (Weiler and Cesa,
"General E(2)-equivariant steerable CNNs"), since the data of the paper came from it. e2cnn tabulates the
irreducible solutions case by case; here one average finds them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.linalg import qr
from torch import Tensor

VANISHES = 1e-6
"""An element whose root mean square over the outputs is below this on all pixels is dropped."""


@dataclass(frozen=True, eq=False)
class Irrep:
    """A real irreducible representation, and how it sits in the representation of a field."""

    matrices: Tensor
    """``[|G|, s, s]``, orthogonal."""
    embeddings: Tensor
    """``[copies, channels, s]``: orthonormal columns in the field that transform by ``matrices``."""


def regular_irreps(rotations: int, flips: bool) -> list[Irrep]:
    """The irreps of C_N or D_N in the left regular representation, elements ordered as in ``dihedral``.

    Functions ``g -> matrices[g][a, b]`` of a fixed b transform as the irrep does, which gives the copies;
    a two-dimensional irrep of C_N is complex in disguise, and its second copy is its first one again.
    """
    mirror = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    irreps = []
    for frequency in range(rotations // 2 + 1):
        turns = _turns(rotations, frequency)
        if frequency == 0 or 2 * frequency == rotations:
            sign = turns[:, :1, :1].round()
            images = [torch.cat([sign, s * sign]) for s in (1, -1)] if flips else [sign]
        else:
            images = [torch.cat([turns, turns @ mirror])] if flips else [turns]
        for matrices in images:
            order, size = matrices.shape[:2]
            columns = matrices * math.sqrt(size / order)
            copies = size if flips else 1
            irreps.append(Irrep(matrices, columns.permute(2, 0, 1)[:copies]))
    return irreps


def _turns(rotations: int, frequency: int) -> Tensor:
    """The plane turned by ``frequency`` times each of the N angles: ``[N, 2, 2]``."""
    angle = torch.arange(rotations, dtype=torch.float64) * (2 * math.pi * frequency / rotations)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([cos, -sin, sin, cos], dim=1).reshape(rotations, 2, 2)


def trivial_irreps(order: int) -> list[Irrep]:
    """The one irrep of a single channel that does not change."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    return [Irrep(one.expand(order, 1, 1), one)]


def rings(kernel_size: int) -> list[tuple[int, float, int]]:
    """(radius, width, highest frequency) of each ring: e2cnn's defaults.

    The centre is a point, which only frequency 0 can occupy. The outermost ring of an odd kernel is
    cut by the grid's border and limited to frequency 2.
    """
    outermost = (kernel_size - 1) // 2
    found = [(0, 0.005, 0)]
    for radius in range(1, outermost + 1):
        highest = 2 if 2 * radius + 1 == kernel_size else 2 * radius - (radius + 1) % 2
        found.append((radius, 0.4 if radius == outermost else 0.6, highest))
    return found


def steerable_block(
    kernel_size: int, rotations: int, flips: bool, irreps_in: list[Irrep], irreps_out: list[Irrep]
) -> tuple[Tensor, Tensor]:
    """The kernels from one field to another, and the standard deviations of e2cnn's start.

    Returns:
        ``[d, channels_out, channels_in, k, k]`` and ``[d]``, for a single input field: the standard
        deviations are to be divided by the root of the number of input fields.

    """
    kernels, deviations = [], []
    for out in irreps_out:
        blocks = []
        for inp in irreps_in:
            sampled = _between(kernel_size, rotations, flips, inp.matrices, out.matrices)
            # One element for each pair of copies: [copies_out, copies_in, d, out, in, pixels]
            spread = torch.einsum("poa,dabx,qib->pqdoix", out.embeddings, sampled, inp.embeddings)
            blocks.append(spread)
        reaching = sum(block.shape[2] > 0 for block in blocks)
        for block in blocks:
            copies_out, copies_in, d = block.shape[:3]
            kernels.append(block.flatten(0, 2))
            # An output copy sums over all input irreps, and over copies_in * d elements from each of them.
            variance = 1 / (reaching * copies_in * d) if d else 0.0
            deviations.append(
                torch.full((copies_out * copies_in * d,), math.sqrt(variance), dtype=torch.float64)
            )
    block = torch.cat(kernels)
    return block.unflatten(-1, (kernel_size, kernel_size)), torch.cat(deviations)


def _between(kernel_size: int, rotations: int, flips: bool, rho_in: Tensor, rho_out: Tensor) -> Tensor:
    """Kernels ``[d, s_out, s_in, pixels]`` between two irreps, ``K(g x) = rho_out(g) K(x) rho_in(g)^-1``."""
    centre = (kernel_size - 1) / 2
    along = torch.arange(kernel_size, dtype=torch.float64) - centre
    x, y = along.repeat(kernel_size), -along.repeat_interleave(kernel_size)  # x to the right, y upwards
    radius, angle = torch.hypot(x, y), torch.atan2(y, x)
    s_out, s_in = rho_out.shape[1], rho_in.shape[1]
    kernels = [torch.zeros(0, s_out, s_in, len(x), dtype=torch.float64)]
    for ring, width, highest in rings(kernel_size):
        profile = torch.exp(-0.5 * ((radius - ring) / width) ** 2)
        for frequency in range(highest + 1):
            coefficients = _invariants(rotations, flips, frequency, rho_in, rho_out)
            harmonics = torch.stack([(frequency * angle).cos(), (frequency * angle).sin()])
            if frequency > 0:
                harmonics = harmonics * (radius > 0)  # the centre has no angle
            kernel = torch.einsum("dabc,cx->dabx", coefficients, harmonics * profile)
            power = kernel.square().sum((1, 2, 3)) / s_out
            if s_out * s_in > 1 and len(power):
                # Such elements are rotated into each other and differ by a choice of basis only: one norm.
                power = power.mean().expand_as(power)
            keep = power.sqrt() > VANISHES
            kernels.append(kernel[keep] / power[keep].sqrt()[:, None, None, None])
    return torch.cat(kernels)


def _invariants(rotations: int, flips: bool, frequency: int, rho_in: Tensor, rho_out: Tensor) -> Tensor:
    """Orthonormal ``[d, s_out, s_in, 2]``: coefficients of cos and sin that the whole group leaves alone."""
    # (g K)(x) = rho_out(g) K(g^-1 x) rho_in(g)^-1; r^a moves the angle by a turn and f, the left-right
    # flip, takes t to pi - t. Below: how (cos m t, sin m t)'s coefficients change, [|G|, 2, 2].
    action = _turns(rotations, frequency)
    if flips:
        parity = (-1.0) ** frequency
        mirror = torch.tensor([[parity, 0.0], [0.0, -parity]], dtype=torch.float64)
        action = torch.cat([action, action @ mirror])
    if frequency == 0:
        action = action * torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)  # sin 0 is no function
    average = torch.einsum("gab,gcd,gij->acibdj", rho_out, rho_in, action) / len(action)
    size = average.shape[0] * average.shape[1] * 2
    projection = average.reshape(size, size)
    # Pivoting keeps cos and sin apart where both are invariant.
    q, _, _ = qr(projection.numpy(), pivoting=True)
    d = round(float(projection.trace()))
    return torch.from_numpy(q[:, :d]).T.reshape(d, average.shape[0], average.shape[1], 2)


def kernel_transform(kernel_size: int, angle: float, flip: bool = False) -> Tensor:
    """``[k k, k k]``: the left-right flip (or not), then a turn by ``angle`` degrees, of ``k x k`` kernels.

    It turns the circular harmonics that a kernel is made of; the part of a kernel that is no sum of harmonics
    becomes zero. No pixel is interpolated. Its square is the turn by twice the angle; at 0 it is the projection
    on the harmonics.
    """
    centre = (kernel_size - 1) / 2
    along = torch.arange(kernel_size, dtype=torch.float64) - centre
    x, y = along.repeat(kernel_size), -along.repeat_interleave(kernel_size)  # x to the right, y upwards
    radius, t = torch.hypot(x, y), torch.atan2(y, x)
    sampled, turned = [], []
    for ring, width, highest in rings(kernel_size):
        profile = torch.exp(-0.5 * ((radius - ring) / width) ** 2)
        for frequency in range(highest + 1):
            rim = profile * (radius > 0) if frequency else profile
            pair = torch.stack([rim * (frequency * t).cos(), rim * (frequency * t).sin()], dim=1)
            if not frequency:
                pair = pair[:, :1]
            if float(pair.square().sum(0).min().sqrt()) < VANISHES:
                continue  # what does not show on the grid cannot be turned there
            a = math.radians(frequency * angle)
            turn = torch.tensor(
                [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=torch.float64
            )
            if flip:
                parity = (-1.0) ** frequency
                turn = turn @ torch.tensor([[parity, 0.0], [0.0, -parity]], dtype=torch.float64)
            sampled.append(pair)
            turned.append(pair @ turn if frequency else pair)
    if not sampled:
        return torch.zeros(len(x), len(x), dtype=torch.float64)
    moved: Tensor = torch.cat(turned, dim=1) @ torch.linalg.pinv(torch.cat(sampled, dim=1))
    return moved
