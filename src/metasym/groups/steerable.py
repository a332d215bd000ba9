"""Bases of all convolution kernels that are equivariant to rotations, and flips, of the image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups._check import one_of, positive_int
from metasym.groups.bases import orbit_basis
from metasym.groups.constructors import cyclic, dihedral
from metasym.groups.group import Group
from metasym.groups.harmonics import regular_irreps, steerable_block, trivial_irreps
from metasym.groups.images import image_rotations, image_rotations_flips
from metasym.types import MetasymError


@dataclass(frozen=True, eq=False)
class KernelBasis:
    """A basis of equivariant kernels ``[out, in, k, k]`` between stacks of equal fields.

    Every pair of an output and an input field has the same kernels, so that only the kernels of one pair are
    stored; methods such as :attr:`basis` repeat them for all channels. Coefficients are ordered by output
    field, then input field, then element of the block. A frozen symmetry matrix ``U = basis.orthonormal()`` makes the
    weight of any ``nn.Conv2d`` of that shape equivariant: ``weight = (U v).reshape(basis.shape)``.
    """

    rep_in: Group
    """How the group permutes the channels of one input field."""
    rep_out: Group
    """How the group permutes the channels of one output field."""
    fields_in: int
    fields_out: int
    block: Tensor
    """``[d_block, channels of rep_out, channels of rep_in, k, k]``, float64."""
    block_std: Tensor
    """``[d_block]``: the standard deviations of the coefficients' start."""

    @property
    def channels_in(self) -> int:
        """The number of input channels, those of all fields."""
        return self.fields_in * self.rep_in.degree

    @property
    def channels_out(self) -> int:
        """The number of output channels, those of all fields."""
        return self.fields_out * self.rep_out.degree

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape ``(out, in, k, k)`` of a kernel."""
        k = self.block.shape[-1]
        return self.channels_out, self.channels_in, k, k

    @property
    def dimension(self) -> int:
        """The number d of free weights."""
        return self.fields_out * self.fields_in * len(self.block)

    @property
    def permutations(self) -> tuple[Tensor, Tensor]:
        """How each element permutes the input and the output channels: ``[|G|, in]`` and ``[|G|, out]``.

        Every kernel W of the span has ``W[out[g, o], in[g, i], g x] = W[o, i, x]`` wherever g takes the
        pixel x to a pixel.
        """
        moved_in = self.rep_in.fields(self.fields_in).permutations
        moved_out = self.rep_out.fields(self.fields_out).permutations
        assert moved_in is not None  # regular and trivial fields permute
        assert moved_out is not None
        return moved_in, moved_out

    @property
    def basis(self) -> Tensor:
        """``[out * in * k * k, d]``, normalised as e2cnn does, for use with :attr:`he_std`."""
        return self._spread(self.block)

    @property
    def he_std(self) -> Tensor:
        """``[d]``: standard deviations of :attr:`basis`' coefficients in e2cnn's generalized He start."""
        return self.block_std.repeat(self.fields_out * self.fields_in)

    def orthonormal(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """``[out * in * k * k, d]`` with orthonormal columns, the same span as :attr:`basis`."""
        columns = torch.linalg.qr(self.block.flatten(1).T).Q
        return self._spread(columns.T.reshape(self.block.shape).to(dtype))

    def expand(self, coefficients: Tensor) -> Tensor:
        """Kernels ``[..., out, in, k, k]`` from :attr:`basis`' coefficients ``[..., d]``, without building it."""
        if coefficients.shape[-1:] != (self.dimension,):
            raise MetasymError(
                f"expand: expected [..., {self.dimension}] coefficients, found {tuple(coefficients.shape)}",
                about="coefficients",
                found=tuple(coefficients.shape),
            )
        split = coefficients.unflatten(-1, (self.fields_out, self.fields_in, len(self.block)))
        kernels = torch.einsum("...pqd,doixy->...poqixy", split, self.block.to(coefficients))
        return kernels.reshape(*coefficients.shape[:-1], *self.shape)

    def sample(self, count: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Random kernels ``[out, in, k, k]``, or ``[count, out, in, k, k]``, float64, by :attr:`he_std`."""
        shape = (self.dimension,) if count is None else (positive_int(count, "count"), self.dimension)
        return self.expand(torch.randn(shape, dtype=torch.float64, generator=generator) * self.he_std)

    def _spread(self, block: Tensor) -> Tensor:
        """The block's elements for every pair of fields: ``[out * in * k * k, d]``."""
        d, out, inp, k, _ = block.shape
        pairs = (self.fields_out, self.fields_in)
        spread = torch.zeros(pairs[0], out, pairs[1], inp, k, k, *pairs, d, dtype=block.dtype)
        elements = block.permute(1, 2, 3, 4, 0)
        for p in range(pairs[0]):
            for q in range(pairs[1]):
                spread[p, :, q, :, :, :, p, q] = elements
        return spread.reshape(math.prod(self.shape), self.dimension)


@checked
def conv_basis(
    kernel_size: int,
    rotations: int,
    flips: bool = False,
    *,
    fields_in: int | None = None,
    fields_out: int = 1,
    in_channels: int = 1,
    method: str = "harmonics",
) -> KernelBasis:
    """All kernels of a steerable convolution, from a plain image or from regular fields to regular fields.

    The group is C_N, N rotations by ``360 / N`` degrees, or with ``flips`` D_N, of 2 N elements. A
    regular field has one channel for each element; elements are ordered as in ``cyclic(N)`` and
    ``dihedral(N)``, ``r`` turns counter-clockwise and ``f`` flips left and right, as in e2cnn.

    Args:
        kernel_size: k of the ``k x k`` kernel.
        rotations: N; any number, also where pixels do not fall on pixels.
        flips: whether reflections belong to the group.
        fields_in: the number of regular input fields, or None for ``in_channels`` channels that the
            group leaves alone (an image).
        fields_out: the number of regular output fields.
        in_channels: the number of channels where ``fields_in`` is None.
        method: ``"harmonics"``: circular harmonics on Gaussian rings, sampled on the grid and
            band-limited; e2cnn's space. ``"pixels"``: every kernel that is equivariant under exact
            permutations of the pixels, a larger space, for 1, 2 and 4 rotations.

    """
    kernel_size = positive_int(kernel_size, "kernel_size")
    rotations = positive_int(rotations, "rotations")
    fields_out = positive_int(fields_out, "fields_out")
    one_of(method, ("harmonics", "pixels"), "method")
    if fields_in is not None and in_channels != 1:
        raise MetasymError(
            f"expected either fields_in or in_channels, found {fields_in} and {in_channels}",
            about="fields_in, in_channels",
            found=(fields_in, in_channels),
        )
    group = dihedral(rotations) if flips else cyclic(rotations)
    rep_out, irreps_out = group.regular(), regular_irreps(rotations, flips)
    if fields_in is None:
        count_in = positive_int(in_channels, "in_channels")
        rep_in, irreps_in = group.trivial_rep(), trivial_irreps(group.order)
    else:
        count_in = positive_int(fields_in, "fields_in")
        rep_in, irreps_in = rep_out, irreps_out
    if method == "pixels":
        block, std = _pixel_block(kernel_size, rotations, flips, rep_in, rep_out)
    else:
        block, std = steerable_block(kernel_size, rotations, flips, irreps_in, irreps_out)
    if not len(block):
        raise MetasymError(
            f"kernel_size: expected one that a ring of harmonics passes through, found {kernel_size}",
            about="kernel_size",
            found=kernel_size,
        )
    return KernelBasis(rep_in, rep_out, count_in, fields_out, block, std / math.sqrt(count_in))


def _pixel_block(
    kernel_size: int, rotations: int, flips: bool, rep_in: Group, rep_out: Group
) -> tuple[Tensor, Tensor]:
    """Kernels as in ``steerable_block``, one for each orbit of the group on (out, in, pixel).

    The group moves every output channel, so that all orbits have its order as their length; the
    standard deviations give each weight He's variance, 1 / fan-in.
    """
    if rotations not in (1, 2, 4):
        raise MetasymError(
            f"rotations: expected 1, 2 or 4 for method='pixels' (multiples of 90 degrees), found {rotations}",
            about="rotations",
            found=rotations,
        )
    grid = image_rotations_flips(kernel_size, rotations) if flips else image_rotations(kernel_size, rotations)
    generators = list(grid.generators)
    moved = torch.zeros(len(generators), 1, dtype=torch.int64)
    for rep in (rep_out, rep_in, grid):
        assert rep.permutations is not None
        moved = (moved[:, :, None] * rep.degree + rep.permutations[generators][:, None, :]).flatten(1)
    basis = orbit_basis(moved)
    block = basis.T.reshape(-1, rep_out.degree, rep_in.degree, kernel_size, kernel_size)
    fan_in = rep_in.degree * kernel_size**2
    return block, torch.full((len(block),), math.sqrt(grid.order / fan_in), dtype=torch.float64)
