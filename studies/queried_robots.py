"""Mirrors of robots from calls of their joint inertia alone: no geometry, no description of joints.

``python -m studies.queried_robots`` writes results/robots/queries.json, in about a minute and a half. It needs what
``studies.robots`` needs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import metasym as ms
from metasym.groups.signed_permutations import SignedPermutation
from metasym.groups.stabilizer_chain import StabilizerChain
from metasym.robots import mirror
from metasym.robots.dynamics import dynamics
from metasym.robots.posture_certificate import draw_postures
from studies.robots import ROBOTS, Oracle, compared, find, write

QUERIED = (
    *(
        "a1",
        "go1",
        "go2",
        "b1",
        "anymal_b_simple_description/robots/anymal",
        "anymal_c_simple_description/urdf/anymal",
    ),
    *(
        "hyq_no_sensors",
        "solo",
        "solo12",
        "bolt",
        "laikago",
        "g1_29dof_rev_1_0",
        "talos_reduced",
        "talos_full_v2",
    ),
    *("icub", "romeo", "baxter"),
)


def queried(path: Path) -> dict[str, Any]:
    """What ``ms.discover`` finds by calling the joint inertia alone: no geometry, the zero posture as the centre.

    The mirrors of the file, by ``mirror``, are what it should find. Claims are checked with Pinocchio.
    """
    found = mirror(path)
    mechanism = found.mechanism

    def inertia(q: np.ndarray) -> np.ndarray:
        at = dynamics(mechanism, q)
        return at.free if mechanism.floating else at.joints

    began = time.process_time()
    run = ms.discover(
        inertia,
        lambda count, draw: draw_postures(mechanism, draw, count),
        matrix_output=True,
        centre=np.zeros(len(found.names)),
        continuous=False,
    )
    seconds = time.process_time() - began
    oracle = Oracle(path, found)
    q = draw_postures(mechanism, np.random.default_rng(777), 500)
    before = oracle.inertia(q)
    claims, chain = [], StabilizerChain(2 * len(found.names))
    for claim in run.verdict.claims:
        worst = 0.0
        for g in claim.moves:
            chain.add(_of_joints(g.inputs, g.input_signs).doubled)
            worst = max(worst, compared(before, oracle.inertia(g.on_inputs(q)), g.inputs, g.input_signs)[0])
        claims.append({"group": claim.name, "bound": claim.defect_upper, "pinocchio_defect": worst})
    mirrors = [_of_joints(g.action.images, g.action.signs).doubled in chain for g in found.generators]
    return {
        "file": str(path.relative_to(ROBOTS)),
        "joints": len(found.names),
        "mirrors": len(mirrors),
        "mirrors_found": sum(mirrors),
        "claims": claims,
        "order": str(chain.order),
        "refused": [str(one) for one in run.refused][:3],
        "seconds": round(seconds, 2),
    }


def _of_joints(images: Sequence[int], signs: Sequence[int]) -> SignedPermutation:
    return SignedPermutation.of((), images, (), signs)


if __name__ == "__main__":
    write(
        "queries",
        {"rows": [queried(find(f"/{name}.urdf")) for name in QUERIED]},
        "python -m studies.queried_robots",
    )
