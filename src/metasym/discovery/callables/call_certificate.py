"""How far a function is from a symmetry, by calls at fresh points, with an upper bound at 95 %.

The defect of an element g is the root mean square of ``f(g x) - g' f(x)``, relative to what the inputs that g moves
carry: the change of f when they are drawn anew. So exchanging two inputs that f hardly depends on is no symmetry
because of that. It is measured of all outputs together, of every output on its own scale, and of every orbit of
inputs on the scale of what that orbit carries: a small part of the function must not hide behind a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.input_draws import InputDraws
from metasym.discovery.callables.output_actions import moved
from metasym.discovery.claim_thresholds import CALLS, LOCAL
from metasym.groups.signed_permutations import SignedPermutation, cycles
from metasym.types import MetasymError
from metasym.verdicts.defects import Defect

FEW = 24
"""Points at which a candidate is examined before it is one."""
_MOST_ORBITS = 40
"""Orbits of inputs that are examined one by one: each costs calls."""
_ORBIT_POINTS = 128
"""Points at which they are."""
_WAYS = 1.0, 0.1, 0.01
"""The part of the way to another point's inputs that an orbit goes: less of it where f does not take the whole."""


@dataclass(frozen=True)
class Defects:
    """Of one element."""

    together: Defect
    """Of all outputs."""
    worst_output: Defect
    """Of the worst output, on its own scale."""
    worst_orbit: Defect
    """Of the worst orbit of inputs, on the scale of what it carries."""
    by_point: Array
    """``[points]``: the defect at each point, of all outputs together."""

    @property
    def worst(self) -> Defect:
        """Of the three."""
        return self.together.worst(self.worst_output).worst(self.worst_orbit)


def share_upper(by_point: Array, bound: float) -> float:
    """The largest share of further points, at 95 %, at which the defect may be far above its bound."""
    far = int((by_point > CALLS.far * bound).sum())
    return float(betaincinv(far + 1, len(by_point) - far, LOCAL.level))


@dataclass(eq=False)
class CallCertificate:
    """``x [points, n]`` are held-out points."""

    f: CalledFunction
    x: Array
    centre: Array
    y: Array = field(init=False)
    orbits_left: bool = False
    """Whether f did not take the points at which an orbit is examined by itself."""
    _replaced: dict[tuple[int, ...], Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.y = self.f(self.x)
        self._others = np.roll(self.x, 1, axis=0)
        self._floor = (10 * self.f.rounding) ** 2 * (self.y**2).mean(0)

    @property
    def still_outputs(self) -> tuple[int, ...]:
        """Outputs whose change at the points may be rounding alone."""
        return tuple(np.flatnonzero(self.y.var(0) <= self._floor).tolist())

    def measure(self, g: SignedPermutation, *, orbits: bool = True) -> Defects:
        """How far f is from keeping g."""
        noise = self.f.noise
        out = list(g.outputs)
        after = self.f(moved(g, self.x, self.centre))
        apart = (after - g.on_outputs(self.y)) ** 2
        chance = noise + np.abs(g.on_outputs(noise))
        size = self._carried(g.moved_inputs)
        image = np.empty_like(size)
        image[:, out] = size
        size = (size + image) / 2
        together = self.relative(apart.sum(1), size.sum(1), chance.sum(), noise.sum(), self._floor.sum())
        total = self.y.var(0)
        total = np.maximum(total, total[np.argsort(out)])
        seen = total > self._floor
        least = CALLS.small_output**2 * total + self._floor
        worst = self.relative(apart[:, seen], size[:, seen], chance[seen], noise[seen], least[seen])
        scale = np.maximum(size.mean(0).sum() - noise.sum(), 0) + self._floor.sum() + np.finfo(float).tiny
        by_point = np.sqrt(apart.sum(1) / scale)
        return Defects(together, worst, self._orbits(g, after) if orbits else together, by_point)

    def _orbits(self, g: SignedPermutation, after: Array) -> Defect:
        changed = set(g.moved_inputs)
        orbits = [cycle for cycle in cycles(g.inputs) if changed & set(cycle)][:_MOST_ORBITS]
        worst = Defect(0.0, 0.0)
        if len(orbits) < 2:
            return worst
        count = min(len(self.x), _ORBIT_POINTS)
        noise = float(self.f.noise.sum())
        for orbit in orbits:
            replaced = self._orbit_replaced(g, orbit, count)
            if replaced is None:
                self.orbits_left = True
                continue
            change, there = self.y[:count] - replaced[0], after[:count] - replaced[1]
            apart = ((there - g.on_outputs(change)) ** 2).sum(1) / 2
            size = (change**2).sum(1) / 2
            worst = worst.worst(self.relative(apart, size, 2 * noise, noise, self._floor.sum()))
        return worst

    def _orbit_replaced(
        self, g: SignedPermutation, orbit: tuple[int, ...], count: int
    ) -> tuple[Array, Array] | None:
        """The function where an orbit is on its way to another point, before and after g; None where f has none."""
        for way in _WAYS:
            x = self.x[:count].copy()
            x[:, orbit] += way * (self._others[:count, orbit] - x[:, orbit])
            try:
                before = self._at_replaced(orbit)[:count] if way == 1 else self.f(x)
                return before, self.f(moved(g, x, self.centre))
            except MetasymError:
                continue
        return None

    def carries(self, inputs: tuple[int, ...]) -> Array:
        """``[m]``: the part of each output's variance that some inputs carry."""
        carried = np.maximum(self._carried(inputs).mean(0) - self.f.noise, 0)
        return np.asarray(carried / np.maximum(self.y.var(0), np.maximum(self._floor, 1e-300)))

    def _carried(self, inputs: tuple[int, ...]) -> Array:
        try:
            return np.asarray((self.y - self._at_replaced(inputs)) ** 2 / 2)
        except MetasymError:  # points put together of two may be none that f takes
            return np.asarray((self.y - self.y.mean(0)) ** 2)

    def _at_replaced(self, inputs: tuple[int, ...]) -> Array:
        """The function where these inputs are those of another point."""
        if inputs not in self._replaced:
            x = self.x.copy()
            x[:, inputs] = self._others[:, inputs]
            self._replaced[inputs] = self.f(x)
        return self._replaced[inputs]

    def relative(
        self, apart: Array, size: Array, chance: npt.ArrayLike, noise: npt.ArrayLike, least: npt.ArrayLike
    ) -> Defect:
        """The root of the ratio of two means over points, noise subtracted, with bounds; of columns the worst."""
        if not apart.size:
            return Defect(0.0, 0.0)
        count = len(apart)
        below = np.maximum(size.mean(0) - noise, 0) + least + np.finfo(float).tiny
        added = np.asarray(chance) / below
        ratio = apart.mean(0) / below - added
        error = (apart - np.maximum(ratio, 0) * size).std(0, ddof=1) / (below * np.sqrt(count))
        reach = float(stdtrit(count - 1, CALLS.level)) * error + 2 * self.f.noise_known * added
        value, upper, lower = (
            float(np.sqrt(np.max(v).clip(0))) for v in (ratio, ratio + reach, ratio - reach)
        )
        return Defect(value, max(upper, value, self.f.rounding), lower)


def idle_inputs(
    f: CalledFunction, draws: InputDraws, certificate: CallCertificate | None = None
) -> tuple[int, ...]:
    """Inputs that do not vary, or whose change changes nothing: at a few points, and then at all of the search."""
    looked = certificate or CallCertificate(f, draws.search[:FEW], np.zeros(f.inputs))
    found = []
    every: CallCertificate | None = None
    for i in range(f.inputs):
        still = draws.spread[i] <= CALLS.still * (abs(draws.centre[i]) + 1e-300)
        if not still:
            if looked.carries((i,)).max() > (100 * f.rounding) ** 2:
                continue
            every = every or CallCertificate(f, draws.search, looked.centre)
            if every.carries((i,)).max() > (100 * f.rounding) ** 2:
                continue
        found.append(i)
    return tuple(found)
