"""The inputs that finite groups may move, in coordinates that a group keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.models.gaussian_processes import Hyper, squares
from metasym.discovery.models.preprocessing import Prepared, Scaled
from metasym.discovery.models.shared_units import Coordinates
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import Points, SignedPermutation


@dataclass(frozen=True, eq=False)
class MovableInputs:
    """Examples with the inputs that a move may take to each other; those that repeat others are left out.

    Constant ones stay: the corners of images are often empty, and flips move them.
    """

    prepared: Prepared
    inputs: tuple[int, ...]
    """Which of the data's inputs."""
    constant: dict[int, float]
    """Those of them that do not vary, with their values."""
    kinds: Points
    """Equal for inputs with the same mean and spread, up to chance: only those change places."""
    train: Array
    """``[examples, sites]``, as the data have them."""
    held_out: Array
    outputs: tuple[int, ...]
    """Which of the data's outputs: each once, constant ones not at all."""
    lift: Array
    """``[outputs, m]``: all outputs but the constant ones from these; entries are 1, -1 and 0."""

    def alike(self, g: SignedPermutation) -> bool:
        """Whether inputs have the same mean and spread, up to chance, as those that the move takes them to."""
        x = self.train
        means, powers = x.mean(0), x.var(0)
        doubt = np.sqrt(np.maximum(((x - means) ** 4).mean(0) - powers**2, 0) / len(x))
        there = np.array(g.inputs)
        apart = np.abs(means[there] - np.array(g.input_signs) * means)
        near = (
            apart
            <= FINITE.same_mean * np.sqrt((powers[there] + powers) / len(x)) + 1e-9 * np.abs(means).max()
        )
        wider = np.abs(powers[there] - powers)
        enough = FINITE.same_mean * np.sqrt(doubt[there] ** 2 + doubt**2)
        like = (wider <= enough) | (wider <= FINITE.same_variance * np.maximum(powers[there], powers))
        return bool(near.all() and like.all())

    def units(self, group: SignedGroup | None) -> Scaled:
        """Units of inputs and outputs that the group keeps."""
        centre, scale = self._middle()
        offset = self.prepared.offset[list(self.outputs)]
        if group is not None:
            centre, offset = group.average_inputs(centre), group.average_outputs(offset)
            alike = group.point_orbits[1]
            scale = np.sqrt((np.bincount(alike, scale**2) / np.bincount(alike))[alike])
        return Scaled(Coordinates(centre, scale), self.inputs, offset, self.prepared.unit)

    def raw(self, x: Array) -> Array:
        """Prepared inputs ``x [examples, n]`` as ``[examples, sites]``, as the data have them."""
        return _raw(x, self.prepared, self.inputs, self.constant)

    def targets(self, y: Array, scaled: Scaled) -> Array:
        """Prepared outputs ``y [examples, m]``, those that are used, in such units."""
        kept = list(self.outputs)
        return np.asarray(y[:, kept] + (self.prepared.offset[kept] - scaled.offset) / self.prepared.unit)

    def placed(self, group: SignedGroup | None) -> tuple[Scaled, Array, Array, Array, Array]:
        """Units that the group keeps, and training and held-out examples in them: x, y, x, y."""
        scaled = self.units(group)
        return (
            scaled,
            scaled.place(self.train),
            self.targets(self.prepared.train[1], scaled),
            scaled.place(self.held_out),
            self.targets(self.prepared.held_out[1], scaled),
        )

    def _middle(self) -> tuple[Array, Array]:
        centre, scale = self.train[0].copy(), np.ones(len(self.inputs))
        used = self._used()
        centre[used], scale[used] = self.prepared.place.centre, self.prepared.place.scale
        # One centre for a kind: means that differ by chance alone would look like a broken symmetry.
        for kind in np.unique(self.kinds):
            members = self.kinds == kind
            centre[members] = centre[members].mean()
        return centre, scale

    def _used(self) -> list[int]:
        place = {i: k for k, i in enumerate(self.inputs)}
        return [place[i] for i in self.prepared.inputs]

    def on_all(self, g: SignedPermutation) -> SignedPermutation | None:
        """A move of the sites as one of all inputs and outputs of the data; inputs that are left out stay.

        Outputs that repeat others go with them; None where there are not as many at both ends.
        """
        places = np.array(self.inputs)
        images, signs = np.arange(self.prepared.total), np.ones(self.prepared.total, dtype=np.int64)
        images[places], signs[places] = places[list(g.inputs)], g.input_signs
        m = self.lift.shape[1]
        outputs, output_signs = np.arange(m), np.ones(m, dtype=np.int64)
        for k, (there, sign) in enumerate(zip(g.outputs, g.output_signs, strict=True)):
            here, other = np.flatnonzero(self.lift[k]), np.flatnonzero(self.lift[there])
            if len(here) != len(other):
                return None
            outputs[here] = other
            output_signs[here] = sign * self.lift[k, here] * self.lift[there, other]
        return SignedPermutation.of(outputs, images, output_signs, signs)

    def restricted(self, g: SignedPermutation) -> SignedPermutation:
        """And back: a move of all inputs and outputs as one of the sites."""
        place = {i: k for k, i in enumerate(self.inputs)}
        rows = [int(np.flatnonzero(self.lift[:, g.outputs[k]])[0]) for k in self.outputs]
        signs = [
            g.output_signs[k] * self.lift[r, g.outputs[k]] for k, r in zip(self.outputs, rows, strict=True)
        ]
        images = [place[g.inputs[i]] for i in self.inputs]
        return SignedPermutation.of(rows, images, signs, [g.input_signs[i] for i in self.inputs])


def movable_inputs(prepared: Prepared, constant: dict[int, float]) -> MovableInputs:
    """From prepared examples; ``constant`` are the data's inputs that do not vary, with their values."""
    inputs = tuple(sorted((*prepared.inputs, *constant)))
    train, held_out = (_raw(x, prepared, inputs, constant) for x, _ in (prepared.train, prepared.held_out))
    place = {i: k for k, i in enumerate(inputs)}
    kinds = _kinds(train, [place[i] for i in prepared.inputs], prepared.place.scale)
    outputs, lift = _outputs(prepared.train[1])
    return MovableInputs(prepared, inputs, constant, kinds, train, held_out, outputs, lift)


def _raw(x: Array, prepared: Prepared, inputs: tuple[int, ...], constant: dict[int, float]) -> Array:
    found = np.tile([constant.get(i, 0.0) for i in inputs], (len(x), 1))
    place = {i: k for k, i in enumerate(inputs)}
    found[:, [place[i] for i in prepared.inputs]] = x * prepared.place.scale + prepared.place.centre
    return np.asarray(found)


def _outputs(y: Array) -> tuple[tuple[int, ...], Array]:
    """Outputs ``y [examples, m]`` that vary and repeat no earlier one, nor its negative; and all from those."""
    lengths = np.sqrt((y**2).sum(0))
    cosines = y.T @ y / np.maximum(np.outer(lengths, lengths), 1e-300)
    same = (np.abs(cosines) > 1 - 1e-12) & (np.abs(lengths[:, None] - lengths) < 1e-9 * lengths.max())
    varies = lengths > 1e-12 * lengths.max()
    kept = [k for k in range(len(lengths)) if varies[k] and not same[k, :k].any()]
    lift = np.where(same & varies[None, :], np.sign(cosines), 0.0)[kept]
    return tuple(kept), lift


def _kinds(x: Array, used: list[int], scale: Array) -> Points:
    means, spreads = x.mean(0), x.std(0)
    count = x.shape[1]
    scales = np.zeros(count)
    scales[used] = scale
    quiet = spreads < FINITE.hardly_varies * np.median(spreads[used])
    scales[quiet] = 0.0
    kinds = np.zeros(count, dtype=np.int64)
    number = 0
    for one in np.unique(scales):
        members = np.flatnonzero(scales == one)
        members = members[np.argsort(means[members])]
        apart = np.diff(means[members]) > FINITE.same_mean * np.sqrt(
            (spreads[members][1:] ** 2 + spreads[members][:-1] ** 2) / len(x)
        ) + 1e-9 * np.abs(means[members]).max(initial=0.0)
        kinds[members] = number + np.concatenate([[0], np.cumsum(apart)])
        number = int(kinds.max()) + 1
    return kinds


def kernel_on_movable_inputs(plain: Hyper, count: int) -> Hyper:
    """The kernel of the used inputs, on all sites: constant ones change no distance."""
    smooth, quadratic = plain.kernel.k1.kernel, plain.kernel.k2.kernel
    kernel = squares(
        count,
        float(smooth.k1.constant_value),
        float(smooth.k2.length_scale),
        float(quadratic.k1.constant_value),
    )
    kernel.k2.kernel.k2.kernel.sigma_0 = float(quadratic.k2.kernel.sigma_0)
    return Hyper(kernel, plain.noise, plain.evidence)
