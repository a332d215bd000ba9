"""Finite symmetries of one function: signed permutations with ``f(g x) = g' f(x)``.

Candidates are cheap, and judged: those that make the training data no less likely are tested alone on held-out
data, then they generate a group, and the group as a whole has to pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.finite.candidate_permutations import Candidates, candidates
from metasym.discovery.finite.movable_inputs import MovableInputs, kernel_on_movable_inputs
from metasym.discovery.finite.polynomial_bound import NearExactPolynomial, near_exact_polynomial
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.models.group_averaged_kernels import MOST_LIKELY, MOST_ROWS, Equivariant, equivariant
from metasym.discovery.models.local_residuals import LocalResiduals, local_residuals
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    EveryMoveRefuted,
    FewRowsDiffer,
    GroupTooLarge,
    LikelierWithout,
    NearSymmetry,
    NoneLikely,
    RefutedByBeta,
    RefutedByPolynomial,
    RepeatedOutputs,
)
from metasym.verdicts.discovery_words import refusal_words, sized

ROWS = 300
"""Rows of the likelihoods that candidates are ranked by."""
ROWS_ALONE = 1200
MOST_ALONE = 24
MOST_GENERATORS = 16
TRIES = 4
FEW_ELEMENTS = 24
"""Elements of a group up to which none is looked at alone before all are looked at together."""
SOME = 6

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
    alone: dict[SignedPermutation, RefutedByBeta | None] = field(default_factory=dict)
    """What held-out data say about moves by themselves."""
    judged: dict[frozenset[SignedPermutation], Claim | AnyDiscoveryReason] = field(default_factory=dict)
    """What became of groups, by their elements: several sets of moves generate the same."""


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
    first = _together(search, tried.together, note)
    known = {g for claim in first for g in SignedGroup(claim.moves, claim.moves[0].shape).elements}
    others = [g for g in tried.moves if sites.on_all(g) not in known]
    if first and not others:
        return first, ()
    kept = _likely(search, others)
    note(f"{len(kept)} of {len(others)} signed permutations make the data no less likely")
    alone = [g for g in kept if generated([g]) is not None and _alone(search, g) is None]
    if first and not alone:
        return first, ()
    if not kept:
        return [], (_none_likely(search, tried),)
    if not alone:
        refuted = [seen for g in kept if (seen := search.alone.get(g)) is not None]
        return [], (refuted[0] if refuted else GroupTooLarge(1, MOST_ELEMENTS),)
    claimed = [sites.restricted(g) for claim in first for g in claim.moves]
    found, reasons = _claims(search, _independent([*claimed, *alone]), note)
    if _size(found) > _size(first):
        return found, ()
    return first, () if first else reasons


def _size(claims: list[Claim]) -> int:
    """The number of elements of all groups together."""
    return math.prod(claim.size for claim in claims) if claims else 0


def _none_likely(search: _Search, tried: Candidates) -> AnyDiscoveryReason:
    """The likelihood of smooth functions ranks moves and refutes none: beta does, where it is asked of all."""
    few = tried.moves if len(tried.moves) <= MOST_ALONE else []
    if few and all(_alone(search, g) is not None for g in few):
        return EveryMoveRefuted(len(few), tried.unlike)
    return NoneLikely(len(tried.moves), tried.unlike)


def _alone(search: _Search, g: SignedPermutation) -> RefutedByBeta | None:
    """Whether held-out data refute a move by itself."""
    if g not in search.alone:
        group = generated([g])
        found = None if group is None else _beta(search, group, _units(search, group), ROWS_ALONE)[1]
        search.alone[g] = _refuted(group, found) if group and found and found.refutes else None
    return search.alone[g]


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


@dataclass(frozen=True, eq=False)
class _Rows:
    """Examples in units that a group keeps."""

    x: Array
    y: Array
    x_new: Array
    y_new: Array

    @property
    def every(self) -> tuple[Array, Array]:
        """Held-out examples first."""
        return np.concatenate([self.x_new, self.x]), np.concatenate([self.y_new, self.y])


def _units(search: _Search, group: SignedGroup) -> _Rows:
    _, x, y, x_new, y_new = search.sites.placed(group)
    return _Rows(x, y, x_new, y_new)


def _by_scale(rows: _Rows, group: SignedGroup) -> list[tuple[SignedGroup, _Rows]]:
    """The examples; and those outputs alone, in their own units, that are too small to show beside others."""
    found = [(group, rows)]
    spread = rows.y.std(0)
    small = np.flatnonzero(spread < FINITE.small_output * spread.max())
    if group.keeps_outputs and len(small):
        moves = [SignedPermutation.of([0], g.inputs, [1], g.input_signs) for g in group.generators]
        alone = generated(moves)
        assert alone is not None
        for k in small:
            y, y_new = (part[:, [k]] / spread[k] for part in (rows.y, rows.y_new))
            found.append((alone, _Rows(rows.x, y, rows.x_new, y_new)))
    return found


def _beta(
    search: _Search, group: SignedGroup, rows: _Rows, most: int = MOST_ROWS
) -> tuple[Equivariant, Beta]:
    """Functions that the group keeps, fitted to training data, and beta on held-out data.

    What breaks the symmetry is what a flexible model adds to those functions, or the part of the plain model that the
    group does not keep: the worse of the two.
    """
    x, y = rows.x, rows.y
    model = equivariant(group, search.plain, x, y)
    symmetric, free = model.fit(x, y, most), model.breaking(x, y, most)
    variance = float(((rows.y_new - y.mean(0)) ** 2).sum(1).mean())
    left = rows.y_new - model.averaged(symmetric, rows.x_new)
    found = beta(left, free(rows.x_new) - model.averaged(free, rows.x_new), variance)
    if not found.refutes:
        plain = posterior(search.plain, x[:most], y[:most])
        other = beta(left, plain(rows.x_new) - model.averaged(plain, rows.x_new), variance)
        found = other if other.refutes else found
    return model, found


def _judged(search: _Search, moves: list[SignedPermutation], note: Note) -> Claim | AnyDiscoveryReason:
    """The claim of the group that the moves generate, on held-out data; or why there is none."""
    group = generated(moves)
    if group is None:
        return GroupTooLarge(len(moves), MOST_ELEMENTS)
    key = frozenset(group.elements)
    if key not in search.judged:
        search.judged[key] = _judged_group(search, moves, group, note)
    return search.judged[key]


def _judged_group(
    search: _Search, moves: list[SignedPermutation], group: SignedGroup, note: Note
) -> Claim | AnyDiscoveryReason:
    everywhere = [search.sites.on_all(g) for g in moves]
    if any(g is None for g in everywhere):
        return RepeatedOutputs(group.name)
    note(f"certifying {sized(group.name, 'finite', len(group.elements))}")
    if search.polynomial is not None and search.polynomial.refutes(group):
        return RefutedByPolynomial(group.name, search.polynomial.left, search.polynomial.broken(group))
    if len(group.elements) > FEW_ELEMENTS:  # what refutes one of them is found sooner than with all
        draw = np.random.default_rng([search.seed, 23])
        for g in [*moves, *group.some_elements(SOME, draw)[1:]]:
            if g.moved_inputs and (refuted := _alone(search, g)) is not None:
                return RefutedByBeta(group.name, refuted.beta, refuted.low, refuted.high)
    rows = _units(search, group)
    fit = posterior(search.plain, rows.x, rows.y)
    least = min(_share(search, g, fit, rows.x) for g in moves)
    tolerance = search.tolerance * least
    worst: Beta | None = None
    violation, local = 0.0, LocalResiduals((), 0.0)
    for acting, one in _by_scale(rows, group):
        model, found = _beta(search, acting, one)
        if found.refutes:
            return _refuted(group, found)
        here, residuals = np.inf, LocalResiduals((), 0.0)
        if search.polynomial is not None and one is rows:
            here, residuals = search.polynomial.upper(group), search.polynomial.local
        if max(here, residuals.share) > tolerance:
            hidden = model.hidden_part(*one.every)
            if hidden.refutes:
                return LikelierWithout(group.name, hidden.upper)
            here = max(found.violation_upper, hidden.upper)
            residuals = LocalResiduals((), 0.0) if search.labels else _local(model, one)
        if worst is None or found.violation_upper > worst.violation_upper:
            worst = found
        violation, local = max(violation, here), max(local, residuals, key=lambda some: some.share)
    assert worst is not None
    if search.labels:  # a function of numbers is smooth, labels may differ in a few places alone
        violation = max(violation, FINITE.unseen / len(model.rows(*rows.every, MOST_LIKELY)[0]))
    if violation > tolerance:
        return NearSymmetry(group.name, violation, search.tolerance)
    if local.share > tolerance:
        listed = tuple(int(search.sites.prepared.order[i]) for i in local.rows[:10])
        return FewRowsDiffer(group.name, listed, len(local.rows), local.share, search.tolerance)
    whole = generated([g for g in everywhere if g is not None])
    assert whole is not None
    return Claim.of_group(
        whole.name,
        whole.order,
        whole.generators,
        violation_upper=max(violation, local.share),
        beta=worst.value,
        beta_ci=(worst.low, worst.high),
        tested_on=worst.examples,
    )


def _local(model: Equivariant, rows: _Rows) -> LocalResiduals:
    """Examples that are far from what the others say, among functions that the group keeps."""
    x, y = model.rows(*rows.every, MOST_LIKELY)
    flat = y if model.group.keeps_outputs else y.reshape(-1, 1)
    columns = 1 if model.group.keeps_outputs else y.shape[1]
    return local_residuals(model.matrix(model.hyper.kernel, x), model.hyper.noise, flat, columns)


def _refuted(group: SignedGroup, found: Beta) -> RefutedByBeta:
    return RefutedByBeta(group.name, found.value, found.low, found.high)
