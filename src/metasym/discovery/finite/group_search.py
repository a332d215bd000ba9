"""Finite symmetries of one function: signed permutations with ``f(g x) = g' f(x)``.

Candidates are cheap, and judged: those that make the training data no less likely are tested alone on held-out
data, then they generate a group, and the group as a whole has to pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.finite.candidate_permutations import candidates
from metasym.discovery.finite.movable_inputs import MovableInputs, kernel_on_movable_inputs
from metasym.discovery.finite.polynomial_bound import NearExactPolynomial, near_exact_polynomial
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.models.group_averaged_kernels import MOST_LIKELY, MOST_ROWS, Equivariant, equivariant
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    GroupTooLarge,
    NearSymmetry,
    NoneLikely,
    RefutedByBeta,
    RefutedByLikelihood,
    RefutedByPolynomial,
    RepeatedOutputs,
)
from metasym.verdicts.discovery_words import refusal_words

ROWS = 300
"""Rows of the likelihoods that candidates are ranked by."""
ROWS_ALONE = 1200
MOST_ALONE = 24
MOST_GENERATORS = 16
TRIES = 4

MOST_ELEMENTS = 1000
"""Elements of a group that is written out; larger ones are claimed in parts."""

Note = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class _Search:
    """What all steps look at."""

    sites: MovableInputs
    plain: Hyper
    natural: set[SignedPermutation]
    seed: int
    tolerance: float
    labels: bool
    polynomial: NearExactPolynomial | None


def finite_symmetries(
    sites: MovableInputs,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    plain: Hyper,
    *,
    labels: bool,
    seed: int,
    tolerance: float,
    note: Note = lambda _: None,
) -> tuple[list[Claim], tuple[AnyDiscoveryReason, ...]]:
    """The groups that the data keep: none, one, or two where one is too large to be written out; or why none."""
    tried = candidates(sites, *shapes, labels)
    search = _Search(
        sites,
        kernel_on_movable_inputs(plain, len(sites.inputs)),
        tried.natural,
        seed,
        tolerance * FINITE.labels if labels else tolerance,
        labels,
        near_exact_polynomial(sites, tried.terms, tolerance),
    )
    claims = _together(search, tried.together, note)
    if claims and not _leaves(claims, [g for g in tried.moves if g in tried.natural], sites):
        return claims, ()
    kept = _likely(search, tried.moves)
    note(f"{len(kept)} of {len(tried.moves)} signed permutations make the data no less likely")
    if not kept:
        return [], (NoneLikely(len(tried.moves), tried.unlike),)
    alone = []
    refuted: AnyDiscoveryReason | None = None
    for g in kept:
        group = generated([g])
        if group is None:
            continue
        found = _beta(search, group, ROWS_ALONE)[1]
        if found.refutes:
            refuted = refuted or _refuted(group, found)
        else:
            alone.append(g)
    if not alone:
        return [], (refuted or GroupTooLarge(1, MOST_ELEMENTS),)
    return _claims(search, _independent(alone), note)


def generated(moves: Sequence[SignedPermutation]) -> SignedGroup | None:
    """The group that the moves generate; None where it has more than ``MOST_ELEMENTS`` elements."""
    found = SignedGroup(tuple(moves), moves[0].shape)
    return found if found.has_at_most(MOST_ELEMENTS) else None


def _together(search: _Search, groups: list[list[SignedPermutation]], note: Note) -> list[Claim]:
    """The largest of the groups that keep a polynomial's terms, where the data keep it as a whole."""
    _, x, y, _, _ = search.sites.placed(None)
    fit = posterior(search.plain, x, y)
    sized: list[tuple[int, list[SignedPermutation]]] = []
    for moves in groups:
        carried = [g for g in moves if _share(search, g, fit, x) > FINITE.carried]
        parts = [generated(some) for some in _parts(carried)]
        if parts and all(part is not None for part in parts):
            sized.append((math.prod(len(part.elements) for part in parts if part is not None), carried))
    for _, moves in sorted(sized, key=lambda one: -one[0]):
        claims, _ = _claims(search, moves, note, tries=1)
        if claims:
            return claims
    return []


def _leaves(claims: list[Claim], moves: list[SignedPermutation], sites: MovableInputs) -> bool:
    """Whether one of the moves is in no claimed group."""
    known = {g for claim in claims for g in SignedGroup(claim.moves, claim.moves[0].shape).elements}
    everywhere = [sites.on_all(g) for g in moves]
    return any(g is not None and g not in known for g in everywhere)


def _likely(search: _Search, moves: list[SignedPermutation]) -> list[SignedPermutation]:
    """Those with which the training data are no less likely, and that move inputs that matter; likeliest first."""
    ranked = []
    for i, g in enumerate(moves):
        group = generated([g])
        if group is None:
            continue
        _, x, y, _, _ = search.sites.placed(group)
        gain = Equivariant(group, search.plain).gain(x, y, ROWS)
        if gain > FINITE.likely:
            ranked.append((-gain, i))
    likely = [moves[i] for _, i in sorted(ranked)]
    _, x, y, _, _ = search.sites.placed(None)
    whole = posterior(search.plain, x, y)
    return [g for g in likely if _share(search, g, whole, x) > FINITE.carried][:MOST_ALONE]


def _share(search: _Search, g: SignedPermutation, fit: Posterior, x: Array) -> float:
    """The part of the variance that the least of the moved inputs carries; for a shape, that of all together.

    Inputs that hardly matter may be moved as one likes: that is no symmetry worth a name.
    """
    draw = np.random.default_rng([search.seed, 22])
    base = fit(x)
    together = g in search.natural
    found = []
    for some in [g.moved_inputs] if together else [(i,) for i in g.moved_inputs]:
        other = x.copy()
        other[:, list(some)] = x[draw.permutation(len(x))][:, list(some)]
        found.append(0.5 * float(((fit(other) - base) ** 2).sum(1).mean()))
    return min(1.0, float(np.min(found)) / float(((base - base.mean(0)) ** 2).sum(1).mean()))


def _independent(moves: list[SignedPermutation]) -> list[SignedPermutation]:
    """The first ones, without those that earlier ones generate."""
    chosen: list[SignedPermutation] = []
    known: set[SignedPermutation] = set()
    for g in moves:
        if g in known or len(chosen) == MOST_GENERATORS:
            continue
        chosen.append(g)
        group = generated(chosen)
        if group is not None:
            known = set(group.elements)
    return chosen


def _parts(moves: list[SignedPermutation]) -> list[list[SignedPermutation]]:
    """All moves together; where they generate too large a group, permutations and changes of sign apart."""
    if not moves or generated(moves) is not None:
        return [moves] if moves else []
    apart = [[g for g in moves if not g.signed], [g for g in moves if not g.permutes]]
    return [some for some in apart if some]


def _claims(
    search: _Search, moves: list[SignedPermutation], note: Note, tries: int = TRIES
) -> tuple[list[Claim], tuple[AnyDiscoveryReason, ...]]:
    """What holds of the moves, or of the likeliest of them."""
    found: list[Claim] = []
    reasons: list[AnyDiscoveryReason] = []
    for some in _parts(moves):
        reason: AnyDiscoveryReason | None = None
        for count in _counts(len(some), tries):
            judged = _judged(search, some[:count], note)
            if isinstance(judged, Claim):
                found.append(judged)
                break
            note(refusal_words(judged))
            reason = reason or judged
        reasons += [reason] if reason else []
    if found:
        return found, ()
    return [], tuple(reasons) or (GroupTooLarge(len(moves), MOST_ELEMENTS),)


def _counts(most: int, tries: int) -> list[int]:
    """How many of the quietest moves are tried together: all, then halves."""
    found = [most] if most else []
    while found and found[-1] > 1 and len(found) < tries:
        found.append(found[-1] // 2)
    return found


def _beta(search: _Search, group: SignedGroup, rows: int = MOST_ROWS) -> tuple[Equivariant, Beta]:
    """Functions that the group keeps, fitted to training data, and beta on held-out data."""
    _, x, y, x_new, y_new = search.sites.placed(group)
    model = equivariant(group, search.plain, x, y)
    symmetric, free = model.fit(x, y, rows), model.breaking(x, y, rows)
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    breaking = free(x_new) - model.averaged(free, x_new)
    return model, beta(y_new - model.averaged(symmetric, x_new), breaking, variance)


def _judged(search: _Search, moves: list[SignedPermutation], note: Note) -> Claim | AnyDiscoveryReason:
    """The claim of the group that the moves generate, on held-out data; or why there is none."""
    group = generated(moves)
    if group is None:
        return GroupTooLarge(len(moves), MOST_ELEMENTS)
    everywhere = [search.sites.on_all(g) for g in moves]
    if any(g is None for g in everywhere):
        return RepeatedOutputs(group.name)
    note(f"certifying {group.name}, of order {len(group.elements)}")
    if search.polynomial is not None and search.polynomial.refutes(group):
        return RefutedByPolynomial(group.name, search.polynomial.left, search.polynomial.broken(group))
    model, found = _beta(search, group)
    if found.refutes:
        return _refuted(group, found)
    _, x, y, x_new, y_new = search.sites.placed(group)
    fit = posterior(search.plain, x, y)
    least = min(_share(search, g, fit, x) for g in moves)
    violation = np.inf if search.polynomial is None else search.polynomial.upper(group)
    if violation > search.tolerance * least:
        every = np.concatenate([x_new, x]), np.concatenate([y_new, y])
        hidden = model.hidden_part(*every)
        if hidden.refutes:
            return RefutedByLikelihood(group.name, turning=False)
        violation = max(found.violation_upper, hidden.upper)
        if search.labels:  # a function of numbers is smooth, labels may differ in a few places alone
            violation = max(violation, FINITE.unseen / len(model.rows(*every, MOST_LIKELY)[0]))
    if violation > search.tolerance * least:
        return NearSymmetry(group.name, violation, search.tolerance)
    whole = generated([g for g in everywhere if g is not None])
    assert whole is not None
    return Claim.of_group(
        whole.name,
        whole.order,
        whole.generators,
        violation_upper=violation,
        beta=found.value,
        beta_ci=(found.low, found.high),
        tested_on=found.examples,
    )


def _refuted(group: SignedGroup, found: Beta) -> RefutedByBeta:
    return RefutedByBeta(group.name, found.value, found.low, found.high)
