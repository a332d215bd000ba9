"""Groups of signed permutations judged on held-out data: claimed with their bound, or not, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.beta_reasons import against
from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.finite.candidate_permutations import Candidates, candidates
from metasym.discovery.finite.known_function import KnownFunction
from metasym.discovery.finite.movable_inputs import MovableInputs, kernel_on_movable_inputs
from metasym.discovery.finite.polynomial_bound import NearExactPolynomial, near_exact_polynomial
from metasym.discovery.finite.symmetric_products import gap, interchangeable, subgroups
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.models.group_averaged_kernels import MOST_LIKELY, MOST_ROWS, Equivariant, equivariant
from metasym.discovery.models.local_residuals import NO_RESIDUALS, LocalResiduals, local_residuals
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    BetaUndetermined,
    FewRowsDiffer,
    GroupTooLarge,
    LikelierWithout,
    NearSymmetry,
    RefutedByBeta,
    RefutedByPolynomial,
    RepeatedOutputs,
)
from metasym.verdicts.discovery_words import sized
from metasym.verdicts.outcomes import About

ROWS_ALONE = 1200
"""Rows of the likelihoods by which a move is tested alone."""
FEW_ELEMENTS = 24
"""Elements of a group up to which none is examined alone before all are examined together."""
SOME = 6
"""Random elements of a group that are tested alone."""

MOST_ELEMENTS = 1000
"""Elements of a group that is written out; larger ones are judged by subgroups, or claimed in parts."""

Note = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Search:
    """What all steps look at; a group that a user asks about is judged by the same."""

    sites: MovableInputs
    plain: Hyper
    tried: Candidates
    seed: int
    tolerance: float
    labels: bool
    polynomial: NearExactPolynomial | None
    known: KnownFunction | None
    """The function, where a continuous symmetry has made it known."""
    alone: dict[SignedPermutation, RefutedByBeta | BetaUndetermined | None] = field(default_factory=dict)
    """What held-out data say about moves by themselves."""
    judged: dict[frozenset[SignedPermutation], Claim | AnyDiscoveryReason] = field(default_factory=dict)
    """What became of groups, by their elements: several sets of moves generate the same."""


def searching(
    sites: MovableInputs,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    plain: Hyper,
    *,
    labels: bool,
    seed: int,
    tolerance: float,
    known: KnownFunction | None = None,
) -> Search:
    """What a search looks at, before it looks; ``shapes`` are those of one example's inputs and outputs."""
    tried = candidates(sites, *shapes, labels)
    return Search(
        sites,
        kernel_on_movable_inputs(plain, len(sites.inputs)),
        tried,
        seed,
        tolerance * FINITE.labels if labels else tolerance,
        labels,
        near_exact_polynomial(sites, tried.terms, tolerance),
        known,
    )


def contradicted_alone(search: Search, g: SignedPermutation) -> RefutedByBeta | BetaUndetermined | None:
    """What held-out data say against a single move."""
    if g not in search.alone:
        group = generated([g])
        found = None if group is None else _beta(search, group, in_units(search, group), ROWS_ALONE)[1]
        search.alone[g] = against(group.name, found) if group and found and found.contradicts else None
    return search.alone[g]


def generated(moves: Sequence[SignedPermutation]) -> SignedGroup | None:
    """The group that the moves generate; None where it has more than ``MOST_ELEMENTS`` elements."""
    found = SignedGroup(tuple(moves), moves[0].shape)
    return found if found.has_at_most(MOST_ELEMENTS) else None


def carried_share(search: Search, g: SignedPermutation, fit: Posterior, x: Array) -> float:
    """The part of the variance that the least of the moved inputs carries; for a shape, that of all together.

    Inputs that hardly matter may be moved as one likes: that is no symmetry worth a name.
    """
    draw = np.random.default_rng([search.seed, 22])
    base = fit(x)
    together = g in search.tried.natural
    found = []
    for some in [g.moved_inputs] if together else [(i,) for i in g.moved_inputs]:
        other = x.copy()
        other[:, list(some)] = x[draw.permutation(len(x))][:, list(some)]
        found.append(0.5 * float(((fit(other) - base) ** 2).sum(1).mean()))
    return min(1.0, float(np.min(found)) / float(((base - base.mean(0)) ** 2).sum(1).mean()))


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples in units that a group keeps."""

    x: Array
    y: Array
    x_new: Array
    y_new: Array

    @property
    def every(self) -> tuple[Array, Array]:
        """Held-out examples first."""
        return np.concatenate([self.x_new, self.x]), np.concatenate([self.y_new, self.y])


def in_units(search: Search, group: SignedGroup) -> Rows:
    """The examples in units that the group keeps."""
    _, x, y, x_new, y_new = search.sites.placed(group)
    return Rows(x, y, x_new, y_new)


def _by_scale(rows: Rows, group: SignedGroup) -> list[tuple[SignedGroup, Rows]]:
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
            found.append((alone, Rows(rows.x, y, rows.x_new, y_new)))
    return found


def _beta(search: Search, group: SignedGroup, rows: Rows, most: int = MOST_ROWS) -> tuple[Equivariant, Beta]:
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
        found = max(found, other, key=lambda one: (one.refutes, one.contradicts))
    return model, found


def judged(search: Search, moves: list[SignedPermutation], note: Note) -> Claim | AnyDiscoveryReason:
    """The claim of the group that the moves generate, on held-out data; or why there is none."""
    group = generated(moves)
    if group is None:
        return _judged_by_subgroups(search, moves, note)
    key = frozenset(group.elements)
    if key not in search.judged:
        search.judged[key] = _judged_group(search, moves, group, note)
    return search.judged[key]


def _judged_by_subgroups(
    search: Search, moves: list[SignedPermutation], note: Note
) -> Claim | AnyDiscoveryReason:
    """The claim of a group that is too large to be written out, where subgroups bound what it does not keep."""
    group = SignedGroup(tuple(moves), moves[0].shape)
    orbits = interchangeable(group)
    everywhere = [search.sites.on_all(g) for g in moves]
    if orbits is None or any(g is None for g in everywhere):
        return GroupTooLarge(len(moves), MOST_ELEMENTS)
    _, x, y, _, _ = search.sites.placed(group)
    fit = posterior(search.plain, x, y)
    tolerance = search.tolerance * min(carried_share(search, g, fit, x) for g in moves)
    found: list[Claim] = []
    violation = 0.0
    for orbit in orbits:
        claims = []
        for some in subgroups(orbit, group.shape):
            one = judged(search, some, note)
            if not isinstance(one, Claim):
                return msgspec.structs.replace(one, name=group.name) if isinstance(one, About) else one
            claims.append(one)
        violation += float(np.mean([claim.violation_upper for claim in claims])) / gap(len(orbit))
        found += claims
    if violation > tolerance:
        return NearSymmetry(group.name, violation, search.tolerance, tolerance, len(x))
    worst = max(found, key=lambda claim: claim.violation_upper)
    whole = SignedGroup(tuple(g for g in everywhere if g is not None), everywhere[0].shape)  # type: ignore[union-attr]
    return Claim.of_group(
        whole.name,
        whole.order,
        whole.generators,
        violation_upper=violation,
        rows_upper=max((claim.rows_upper for claim in found if claim.rows_upper is not None), default=None),
        beta=worst.beta,
        beta_ci=worst.beta_ci,
        tested_on=worst.tested_on,
    )


def _judged_group(
    search: Search, moves: list[SignedPermutation], group: SignedGroup, note: Note
) -> Claim | AnyDiscoveryReason:
    everywhere = [search.sites.on_all(g) for g in moves]
    if any(g is None for g in everywhere):
        return RepeatedOutputs(group.name)
    note(f"certifying {sized(group.name, 'finite', len(group.elements))}")
    if search.polynomial is not None and search.polynomial.refutes(group):
        return RefutedByPolynomial(group.name, search.polynomial.left, search.polynomial.broken(group))
    if len(group.elements) > FEW_ELEMENTS:  # what refutes one of them is found sooner than with all
        draw = np.random.default_rng([search.seed, 23])
        # Products of moves that passed alone would pass too; together they are judged below.
        passed = all(g in search.alone for g in moves)
        for g in moves if passed else [*moves, *group.some_elements(SOME, draw)[1:]]:
            if g.moved_inputs and (said := contradicted_alone(search, g)) is not None:
                return msgspec.structs.replace(said, name=group.name)
    rows = in_units(search, group)
    fit = posterior(search.plain, rows.x, rows.y)
    least = min(carried_share(search, g, fit, rows.x) for g in moves)
    tolerance = search.tolerance * least
    worst: Beta | None = None
    violation, local = 0.0, NO_RESIDUALS
    for acting, one in _by_scale(rows, group):
        model, found = _beta(search, acting, one)
        if found.contradicts:
            return against(group.name, found)
        here, residuals = np.inf, NO_RESIDUALS
        if search.polynomial is not None and one is rows:
            here, residuals = search.polynomial.upper(group), search.polynomial.local
        if max(here, residuals.upper) > tolerance:
            hidden = model.hidden_part(*one.every, tolerance)
            if hidden.refutes:
                return LikelierWithout(group.name, hidden.upper)
            here = max(found.violation_upper, hidden.upper)
            residuals = NO_RESIDUALS if search.labels else _local(model, one)
        if worst is None or found.violation_upper > worst.violation_upper:
            worst = found
        violation = max(violation, here)
        local = max(local, residuals, key=lambda some: (some.upper, some.of))
    assert worst is not None
    if search.labels:  # a function of numbers is smooth, labels may differ in a few places alone
        violation = max(violation, FINITE.unseen / len(model.rows(*rows.every, MOST_LIKELY)[0]))
    if violation > tolerance:
        return NearSymmetry(group.name, violation, search.tolerance, tolerance, len(rows.every[0]))
    if local.upper > tolerance:
        listed = tuple(int(search.sites.prepared.order[i]) for i in local.rows[:10])
        return FewRowsDiffer(group.name, listed, len(local.rows), local.share, local.upper, search.tolerance)
    whole = generated([g for g in everywhere if g is not None])
    assert whole is not None
    return Claim.of_group(
        whole.name,
        whole.order,
        whole.generators,
        violation_upper=max(violation, local.upper),
        rows_upper=None if search.labels else local.share_upper,
        beta=worst.value,
        beta_ci=(worst.low, worst.high),
        tested_on=worst.examples,
    )


def _local(model: Equivariant, rows: Rows) -> LocalResiduals:
    """Examples that are far from what the others say, among functions that the group keeps."""
    x, y = model.rows(*rows.every, MOST_LIKELY)
    flat = y if model.group.keeps_outputs else y.reshape(-1, 1)
    columns = 1 if model.group.keeps_outputs else y.shape[1]
    return local_residuals(model.matrix(model.hyper.kernel, x), model.hyper.noise, flat, columns)
