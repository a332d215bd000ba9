"""Finite symmetries of one function: signed permutations with ``f(g x) = g' f(x)``.

Candidates are cheap, and judged: those that make the training data no less likely are tested alone on held-out
data, then they generate a group, and the group as a whole has to pass.
"""

from __future__ import annotations

import math

from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.finite.candidate_permutations import Candidates
from metasym.discovery.finite.group_certificate import (
    MOST_ELEMENTS,
    Note,
    Search,
    carried_share,
    contradicted_alone,
    generated,
    judged,
    searching,
)
from metasym.discovery.finite.known_function import KnownFunction
from metasym.discovery.finite.movable_inputs import MovableInputs
from metasym.discovery.finite.symmetric_products import interchangeable
from metasym.discovery.models.gaussian_processes import Hyper, posterior
from metasym.discovery.models.group_averaged_kernels import Equivariant
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    EveryMoveRefuted,
    GroupTooLarge,
    NoneLikely,
    RefutedByBeta,
)
from metasym.verdicts.discovery_words import refusal_words

ROWS = 300
"""Rows of the likelihoods that candidates are ranked by."""
MOST_ALONE = 24
"""Moves that are tested alone."""
MOST_GENERATORS = 16
"""Of one group."""
TRIES = 4
"""Smaller groups that are tried after a refuted one."""


def finite_symmetries(
    sites: MovableInputs,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    plain: Hyper,
    *,
    labels: bool,
    seed: int,
    tolerance: float,
    known: KnownFunction | None = None,
    note: Note = lambda _: None,
) -> tuple[list[Claim], tuple[AnyDiscoveryReason, ...]]:
    """The groups that the data keep: none, one, or two where one is too large to be written out.

    And why no other one that was looked at as a whole, or none at all, is claimed.
    """
    search = searching(sites, shapes, plain, labels=labels, seed=seed, tolerance=tolerance, known=known)
    tried = search.tried
    first, larger = _together(search, tried.together, note)
    claimed = {g for claim in first for g in SignedGroup(claim.moves, claim.moves[0].shape).elements}
    others = [g for g in tried.moves if sites.on_all(g) not in claimed and not _broken(search, g)]
    if first and not others:
        return first, larger
    kept = _likely(search, others)
    note(f"{len(kept)} of {len(others)} signed permutations do not make the data less likely")
    alone = [g for g in kept if generated([g]) is not None and contradicted_alone(search, g) is None]
    if first and not alone:
        return first, larger
    if not kept:
        return [], (_none_likely(search, tried),)
    if not alone:
        against = [seen for g in kept if (seen := search.alone.get(g)) is not None]
        # What is open says more than what is refuted: not all are.
        against.sort(key=lambda seen: isinstance(seen, RefutedByBeta))
        return [], (against[0] if against else GroupTooLarge(1, MOST_ELEMENTS),)
    before = [sites.restricted(g) for claim in first for g in claim.moves]
    found, reasons = _claims(search, _independent([*before, *alone]), note)
    if _size(found) > _size(first):
        return found, reasons
    return first, tuple(dict.fromkeys((*larger, *reasons))) if first else reasons


def _broken(search: Search, g: SignedPermutation) -> bool:
    """Whether a function that is known is changed by the move."""
    return search.known is not None and search.known.breaks(g)


def _size(claims: list[Claim]) -> int:
    """The number of elements of all groups together."""
    return math.prod(claim.size for claim in claims) if claims else 0


def _none_likely(search: Search, tried: Candidates) -> AnyDiscoveryReason:
    """The likelihood of smooth functions ranks moves and refutes none: beta does, where it is asked of all."""
    few = tried.moves if len(tried.moves) <= MOST_ALONE else []
    if few and all(isinstance(contradicted_alone(search, g), RefutedByBeta) for g in few):
        return EveryMoveRefuted(len(few), tried.unlike)
    return NoneLikely(len(tried.moves), tried.unlike)


def _together(
    search: Search, groups: list[list[SignedPermutation]], note: Note
) -> tuple[list[Claim], tuple[AnyDiscoveryReason, ...]]:
    """The largest of the groups that keep a polynomial's terms, where the data keep it; and why no larger one."""
    reasons: list[AnyDiscoveryReason] = []
    _, x, y, _, _ = search.sites.placed(None)
    fit = posterior(search.plain, x, y)
    sized: list[tuple[int, list[SignedPermutation]]] = []
    for moves in groups:
        carried = [
            g for g in moves if not _broken(search, g) and carried_share(search, g, fit, x) > FINITE.carried
        ]
        parts = [generated(some) for some in _parts(carried)]
        if parts and all(part is not None for part in parts):
            sized.append((math.prod(len(part.elements) for part in parts if part is not None), carried))
    for _, moves in sorted(sized, key=lambda one: -one[0]):
        claims, against = _claims(search, moves, note, tries=1)
        reasons += against
        if claims:
            return claims, tuple(dict.fromkeys(reasons))
    return [], ()


def _likely(search: Search, moves: list[SignedPermutation]) -> list[SignedPermutation]:
    """Those with which the training data are no less likely, and that move inputs that matter; likeliest first."""
    ranked = []
    known: dict[tuple[bytes, ...], float] = {}
    for i, g in enumerate(moves):
        group = generated([g])
        if group is None:
            continue
        _, x, y, _, _ = search.sites.placed(group)
        gain = Equivariant(group, search.plain).gain(x, y, ROWS, known)
        if gain > FINITE.likely:
            ranked.append((-gain, i))
    likely = [moves[i] for _, i in sorted(ranked)]
    _, x, y, _, _ = search.sites.placed(None)
    whole = posterior(search.plain, x, y)
    return [g for g in likely if carried_share(search, g, whole, x) > FINITE.carried][:MOST_ALONE]


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
    if (
        not moves
        or generated(moves) is not None
        or interchangeable(SignedGroup(tuple(moves), moves[0].shape))
    ):
        return [moves] if moves else []
    apart = [[g for g in moves if not g.signed], [g for g in moves if not g.permutes]]
    return [some for some in apart if some]


def _claims(
    search: Search, moves: list[SignedPermutation], note: Note, tries: int = TRIES
) -> tuple[list[Claim], tuple[AnyDiscoveryReason, ...]]:
    """What holds of the moves, or of the likeliest of them; and why not all of them, or none."""
    found: list[Claim] = []
    reasons: list[AnyDiscoveryReason] = []
    for some in _parts(moves):
        reason: AnyDiscoveryReason | None = None
        for count in _counts(len(some), tries):
            one = judged(search, some[:count], note)
            if isinstance(one, Claim):
                found.append(one)
                break
            note(refusal_words(one))
            reason = reason or one
        reasons += [reason] if reason else []
    if found:
        return found, tuple(reasons)
    return [], tuple(reasons) or (GroupTooLarge(len(moves), MOST_ELEMENTS),)


def _counts(most: int, tries: int) -> list[int]:
    """How many of the quietest moves are tried together: all, then halves."""
    found = [most] if most else []
    while found and found[-1] > 1 and len(found) < tries:
        found.append(found[-1] // 2)
    return found
