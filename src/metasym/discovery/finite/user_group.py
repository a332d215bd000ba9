"""Does the function behind rows have a group that a user asks about?

Rows hold ``f(x)`` and not ``f(g x)``, so that fitted functions speak for it. The user chose the group without the
data: every row can be judged by functions that were fitted to others. What a flexible function has beside its average
over the group must not predict what symmetric functions leave (beta). What these leave of the rows bounds every
defect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from metasym.certification.beta import beta
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import CONTINUOUS, FINITE
from metasym.discovery.finite.finite_symmetries import constant_inputs
from metasym.discovery.finite.group_certificate import Search, generated, in_units, judged, searching
from metasym.discovery.finite.movable_inputs import movable_inputs
from metasym.discovery.finite.symmetric_products import gap, interchangeable, subgroups
from metasym.discovery.models.gaussian_processes import Hyper, posterior, random_folds
from metasym.discovery.models.group_averaged_kernels import equivariant
from metasym.discovery.models.preprocessing import Prepared
from metasym.discovery.search_settings import Note, SearchSettings
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.given_groups import Hypothesis
from metasym.tasks.dataset import DataSet
from metasym.types import MetasymError
from metasym.verdicts.asked_groups import BrokenMove, FunctionAnswer
from metasym.verdicts.claims import Claim
from metasym.verdicts.defects import defect_of
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.family_reasons import InputsElsewhere
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.verdict import Status

FOLDS = 5
"""Parts of the rows, each judged by functions that were fitted to the others."""
CROSSED = 2**0.5
"""The error of a mean over rows that are each judged by functions fitted to the others, in units of that of
independent rows: two rows each speak about the other, so that every pair counts twice."""
MOST_GENERATORS = 24
"""Generators that are examined one by one for what breaks the group."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What rows say of a group, each judged by functions fitted to others; parts of the variance of y."""

    violation: float
    upper: float
    """What symmetric functions leave, at most: no violation is larger."""
    refuted: bool
    by_output: Array
    """``[m]``: the violation in each output."""


def answer(
    data: DataSet,
    prepared: Prepared,
    plain: Hyper,
    options: SearchSettings,
    asked: Hypothesis,
    note: Note,
    found: tuple[Claim, ...] = (),
) -> FunctionAnswer:
    """Yes, no, or how nearly, with the bound and what breaks it; ``found`` is what the same rows certify."""
    note(f"testing {asked.text}")
    sites = movable_inputs(prepared, constant_inputs(data, prepared))
    try:
        moves = [sites.restricted(g) for g in asked.group.generators]
    except (KeyError, IndexError):
        raise MetasymError(
            f"group {asked.text}: expected one of the inputs and outputs that vary and repeat no other, found one "
            "that moves others",
            about="group",
            found=asked.text,
        ) from None
    search = searching(
        sites,
        (data.x_shape, data.y_shape),
        plain,
        labels=bool(data.classes),
        seed=options.seed,
        tolerance=options.tolerance,
    )
    group = SignedGroup(tuple(moves), moves[0].shape)
    said = judged(search, moves, note)
    seen = _of_large(search, group) if generated(moves) is None else _crossed(search, group)
    breaking = _breaking(search, asked.group.generators, moves)
    refuted = bool(breaking) or (seen is not None and seen.refuted)
    upper = 1.0 if seen is None else seen.upper
    reasons: tuple[AnyDiscoveryReason, ...] = ()
    # A subgroup keeps more functions than the whole group: its violation is no larger.
    whole = min(
        (claim for claim in found if _part_of(asked.group, claim)),
        key=lambda claim: claim.violation_upper,
        default=None,
    )
    claimed = isinstance(said, Claim) or whole is not None
    if isinstance(said, Claim):
        upper = min(upper, said.violation_upper) if not refuted else upper
    elif whole is None:
        reasons = (said,)
        refuted = refuted or said.outcome is Outcome.REFUTED
    part_of = ""
    if whole is not None and whole.violation_upper < upper:
        upper, part_of = whole.violation_upper, whole.name
    violation = max([0.0 if seen is None else seen.violation, *(one.defect**2 / 2 for one in breaking)])
    status = _status(claimed, refuted, upper)
    if not all(sites.alike(g) for g in moves):
        status, reasons = Status.UNDECIDED, (InputsElsewhere(asked.group.name), *reasons)
    return FunctionAnswer(
        asked.text,
        asked.group.name,
        asked.group.order,
        asked.group.generators,
        asked.invariance,
        status,
        refuted,
        defect_of(min(violation, upper)),
        defect_of(upper),
        len(data.x) if seen is None else len(prepared.order),
        () if status in (Status.CERTIFIED, Status.APPROXIMATE) else reasons,
        breaking,
        part_of,
    )


def _part_of(group: SignedGroup, claim: Claim) -> bool:
    """Whether the moves of a claimed finite symmetry generate ``group``, and maybe more."""
    if claim.kind != "finite" or claim.moves[0].shape != group.shape:
        return False
    return SignedGroup((*claim.moves, *group.generators), group.shape).order == claim.size


def _status(claimed: bool, refuted: bool, upper: float) -> Status:
    if claimed and not refuted:
        return Status.CERTIFIED
    if defect_of(upper) <= FINITE.nearly:
        return Status.APPROXIMATE
    return Status.NONE if refuted else Status.UNDECIDED


def _crossed(search: Search, group: SignedGroup) -> Seen:
    """Every row judged by functions that were fitted to other rows."""
    rows = in_units(search, group)
    x, y = rows.every
    model = equivariant(group, search.plain, rows.x, rows.y)
    left, apart = np.empty_like(y), np.empty_like(y)
    for part in random_folds(len(x), FOLDS, np.random.default_rng([search.seed, 25])):
        others = np.ones(len(x), dtype=bool)
        others[part] = False
        symmetric = model.fit(x[others], y[others])
        free = posterior(search.plain, x[others], y[others])
        left[part] = y[part] - model.averaged(symmetric, x[part])
        apart[part] = free(x[part]) - model.averaged(free, x[part])
    variance = float(((y - y.mean(0)) ** 2).sum(1).mean())
    found = beta(left, apart, variance, level=FINITE.crossed_level, widened=CROSSED)
    squares = (left**2).sum(1)
    reach = float(stdtrit(len(x) - 1, CONTINUOUS.left_level)) * float(squares.std(ddof=1)) / len(x) ** 0.5
    by_output = np.maximum((left * apart).mean(0), 0) / variance
    upper = min(1.0, (float(squares.mean()) + reach) / variance)
    return Seen(max(0.0, found.value) * found.moved, upper, found.refutes, by_output)


def _of_large(search: Search, group: SignedGroup) -> Seen | None:
    """Of all permutations of some inputs, by subgroups; None of another large group."""
    orbits = interchangeable(group)
    if orbits is None:
        return None
    violation = upper = 0.0
    refuted = False
    by_output = np.zeros(group.shape[0])
    for orbit in orbits:
        each = [
            _crossed(search, SignedGroup(tuple(some), group.shape)) for some in subgroups(orbit, group.shape)
        ]
        violation += float(np.mean([one.violation for one in each])) / gap(len(orbit))
        upper += float(np.mean([one.upper for one in each])) / gap(len(orbit))
        refuted = refuted or any(one.refuted for one in each)
        by_output = by_output + np.mean([one.by_output for one in each], axis=0)
    return Seen(min(1.0, violation), min(1.0, upper), refuted, by_output)


def _breaking(
    search: Search, generators: tuple[SignedPermutation, ...], moves: list[SignedPermutation]
) -> tuple[BrokenMove, ...]:
    """The generators that rows refute, the worst first; in the user's inputs."""
    found = []
    for whole, g in list(zip(generators, moves, strict=True))[:MOST_GENERATORS]:
        alone = generated([g])
        if alone is None or g.is_identity:
            continue
        seen = _crossed(search, alone)
        if seen.refuted:
            output = search.sites.outputs[int(np.argmax(seen.by_output))] if len(seen.by_output) > 1 else None
            found.append(BrokenMove(whole, defect_of(seen.violation), output))
    return tuple(sorted(found, key=lambda one: -one.defect))
