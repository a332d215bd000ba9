"""The posture that all elements keep: they turn and change signs about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metasym.robots.matching import Candidate
from metasym.robots.mechanism import REVOLUTE, Array, Mechanism
from metasym.robots.mirror_thresholds import CANDIDATES


def common_centre(mechanism: Mechanism, elements: Sequence[Candidate]) -> Array | None:
    """``[n]``: a posture that every element keeps, up to whole turns; None where there is none.

    Elements with no offsets keep 0.
    """
    n = len(mechanism.joints)
    around = [2 * math.pi if joint.kind == REVOLUTE else math.inf for joint in mechanism.joints]
    centre = np.full(n, np.nan)
    for start in range(n):
        if not math.isnan(centre[start]):
            continue
        # What the joint's position becomes along all ways from it: sign and offset for every joint that is reached.
        reached: dict[int, tuple[int, float]] = {start: (1, 0.0)}
        fixed: list[float] = []
        waiting = [start]
        while waiting:
            i = waiting.pop()
            sign, offset = reached[i]
            for g in elements:
                j, s, o = g.images[i], g.signs[i], float(g.offsets[i])
                come = (sign * s, s * offset + o)
                if j not in reached:
                    reached[j] = come
                    waiting.append(j)
                elif come[0] != reached[j][0]:  # c and -c + o are equal
                    fixed.append((come[1] - reached[j][1]) / (reached[j][0] - come[0]))
        half = around[start] / 2
        at = math.remainder(fixed[0], half) if fixed and math.isfinite(half) else fixed[0] if fixed else 0.0
        for j, (sign, offset) in reached.items():
            value = sign * at + offset
            centre[j] = math.remainder(value, around[j]) if math.isfinite(around[j]) else value
    for g in elements:
        apart = g.on_postures(centre) - centre
        wrapped = [
            math.remainder(a, r) if math.isfinite(r) else a for a, r in zip(apart, around, strict=True)
        ]
        if max(map(abs, wrapped)) > CANDIDATES.same_centre:
            return None
    return centre + 0.0
