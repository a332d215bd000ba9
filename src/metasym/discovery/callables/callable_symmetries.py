"""Finite symmetries of a function that can be called: signed permutations with ``f(g x) = g' f(x)``.

Candidates come from calls at chosen points; every claim is checked at fresh points. What holds up to rounding and
what holds nearly are two claims.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables import centre_search
from metasym.discovery.callables.call_certificate import CallCertificate
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.input_draws import InputDraws
from metasym.discovery.callables.output_actions import Images, OutputActions, moved
from metasym.discovery.callables.partial_point_search import PartialPointSearch
from metasym.discovery.callables.suggested_moves import suggested_moves
from metasym.discovery.claim_thresholds import CALLS
from metasym.discovery.search_settings import Note
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.groups.stabilizer_chain import StabilizerChain
from metasym.types import MetasymError
from metasym.verdicts.defects import Defect, defect_of

MOST_INPUTS = 1024
"""Inputs up to which the search covers moves: the calls grow with their square."""
POINTS = 512
"""Fresh points of a certificate at most."""
_QUICK = 24
"""Points at which a candidate is examined before it is one."""
_ALL = 60
"""Groups up to this order are checked element by element, others by generators and random products."""
_PRODUCTS = 20
"""Random products of generators that are called for a larger group."""
_MOST_REPEATS = 64
"""Calls at one point at most, where f is noisy."""


@dataclass(frozen=True, eq=False)
class FoundGroup:
    """A group with the worst defect of the elements that were called."""

    group: SignedGroup
    defect: Defect
    elements: int
    """How many were called."""


@dataclass(frozen=True, eq=False)
class FiniteFindings:
    """What a search found."""

    exact: FoundGroup | None
    """What holds up to rounding."""
    near: FoundGroup | None
    """A larger group that holds nearly."""
    refused: tuple[tuple[SignedPermutation, Defect], ...]
    """Candidates that fresh points refuse, the best first."""
    tried: int
    idle: tuple[int, ...]
    """Inputs that f does not depend on, or that do not vary: they are moved by nothing that is claimed."""
    complete: bool
    """Whether the search for exact ones ended."""
    near_complete: bool
    """Whether that for near ones did."""
    centre: Array


class FiniteSearch:
    """All that a search for signed permutations needs."""

    def __init__(
        self,
        f: CalledFunction,
        draws: InputDraws,
        *,
        tolerance: float,
        centre: Array | None = None,
        two_sided: bool = False,
        seed: int = 0,
        note: Note = lambda _: None,
    ) -> None:
        self.f, self.draws, self.note = f, draws, note
        self.limit = defect_of(tolerance)
        f.repeat(_repeats(f, draws, self.limit))
        self.generator = np.random.default_rng([seed, 32])
        self.spread = draws.spread
        self.kinds = _kinds(self.spread)
        self.given = centre is not None
        self.centre = _centre(draws, self.kinds) if centre is None else centre
        looked = draws.search[: 4 * _QUICK]
        self.quick = CallCertificate(f, looked[:_QUICK] if len(looked) >= _QUICK else looked, self.centre)
        self.actions = OutputActions(f, self.quick.x, self.quick.y, two_sided)
        self.certificate = CallCertificate(f, draws.fresh(POINTS), self.centre)
        self.tried = 0
        self.complete = self.near_complete = True
        self.idle = idle_inputs(f, draws, self.quick)
        if two_sided:  # an input without effect still turns its row and column
            rows = np.abs(self.quick.y).reshape(-1, f.inputs, f.inputs).max((0, 2))
            self.idle = tuple(i for i in self.idle if not rows[i] or not self.spread[i])

    def run(self) -> FiniteFindings:
        """Exact ones first, then nearly exact ones."""
        suggestions, exact = self._exact()
        found = self._certified(exact, [])
        if self._looks_for_a_centre():
            suggestions, exact, found = self._about_other_centres(suggestions, exact, found)
        refused: list[tuple[SignedPermutation, Defect]] = []
        nearly = self._generators(suggestions, self.limit, list(exact))
        near = None
        if len(nearly) > len(exact):
            near = self._certified(nearly, refused)
            if near is not None and found is not None and near.group.order <= found.group.order:
                near = None
        refused.sort(key=lambda one: one[1].value)
        return FiniteFindings(
            found,
            near,
            tuple(refused),
            self.tried,
            self.idle,
            self.complete,
            self.near_complete,
            self.centre,
        )

    def _exact(self) -> tuple[list[SignedPermutation], list[SignedPermutation]]:
        """Moves that are worth a look about the present centre, and generators of those that hold up to rounding.

        None where f is noisy: there noise alone would decide which of the true ones seem to.
        """
        suggestions = self._promising(suggested_moves(self.f.inputs, self.f.input_shape))
        if self.f.noise.any():
            return suggestions, []
        return suggestions, self._generators(suggestions, 1e3 * self.f.rounding, [])

    def _looks_for_a_centre(self) -> bool:
        if self.given or self.f.noise.any() or self.f.inputs > centre_search.MOST_INPUTS:
            return False
        try:
            return not centre_search.is_centre(self.f, self.draws, self.centre)
        except MetasymError:  # f may not take points about the centre
            return False

    def _about_other_centres(
        self, suggestions: list[SignedPermutation], exact: list[SignedPermutation], found: FoundGroup | None
    ) -> tuple[list[SignedPermutation], list[SignedPermutation], FoundGroup | None]:
        """The same about the point with the largest group, which is the centre from here on."""
        best = self.centre
        for centre in centre_search.centre_candidates(self.f, self.draws):
            self.note("searching for moves about another centre")
            ended = self.complete
            self._move_to(centre)
            others = self._exact()
            again = self._certified(others[1], [])
            self.complete = ended
            if again is not None and (found is None or again.group.order > found.group.order):
                suggestions, exact, found, best = *others, again, centre
        self._move_to(best)
        return suggestions, exact, found

    def _move_to(self, centre: Array) -> None:
        self.centre = self.quick.centre = self.certificate.centre = centre

    def _promising(self, moves: list[SignedPermutation]) -> list[SignedPermutation]:
        """Those under which the outputs at a few points are about the same but for order and signs."""
        idle, kinds = set(self.idle), self.kinds
        moves = [
            g for g in moves if not idle & set(g.moved_inputs) and (kinds[list(g.inputs)] == kinds).all()
        ]
        x, y = self.quick.x[:3], self.quick.y[:3]
        target = np.sort(np.abs(y), axis=1)
        spread = float(np.sqrt(((self.quick.y - self.quick.y.mean(0)) ** 2).sum(1).mean()))
        kept = []
        step = max(1, 2**18 // (3 * max(self.f.inputs, self.f.outputs)))
        for start in range(0, len(moves), step):
            some = moves[start : start + step]
            after = self._outputs_after(some, x)
            apart = np.sqrt(((np.sort(np.abs(after), axis=2) - target) ** 2).sum(2).mean(1))
            kept += [one for one, d in zip(some, apart, strict=True) if d <= self.limit * 2 * spread]
        self.tried += len(moves)
        return kept

    def _outputs_after(self, moves: list[SignedPermutation], x: Array) -> Array:
        """``[moves, points, m]``; infinite where f does not take the moved points."""
        try:
            points = np.concatenate([moved(one, x, self.centre) for one in moves])
            return self.f(points).reshape(len(moves), len(x), -1)
        except MetasymError:
            if len(moves) == 1:
                return np.full((1, len(x), self.f.outputs), np.inf)
            half = len(moves) // 2
            parts = (self._outputs_after(some, x) for some in (moves[:half], moves[half:]))
            return np.concatenate(list(parts))

    def _element(self, move: SignedPermutation, limit: float) -> SignedPermutation | None:
        """The element with its output moves, where f keeps it within ``limit`` at a few points."""
        self.tried += 1
        try:
            g = self.actions.element(move, self.centre)
            if g is None:
                return None
            defects = self.quick.measure(g, orbits=limit > CALLS.exact)
        except MetasymError:
            return None
        # A few points only: fresh ones decide.
        return g if defects.worst.value <= CALLS.few_points * limit else None

    def _generators(
        self, suggestions: list[SignedPermutation], limit: float, known: list[SignedPermutation]
    ) -> list[SignedPermutation]:
        found = list(known)
        chain = StabilizerChain(2 * self.f.inputs)
        for g in found:
            chain.add(_of_inputs(g).doubled)

        def add(g: SignedPermutation | None) -> bool:
            if g is not None and chain.add(_of_inputs(g).doubled):
                found.append(g)
            return g is not None

        for move in suggestions:
            if move.doubled not in chain:
                add(self._element(move, limit))
        allowed = CALLS.nearly if limit > CALLS.exact else 1e3 * self.f.rounding
        self.note(
            f"{len(found)} moves keep f {'nearly' if limit > CALLS.exact else 'exactly'}; searching for more"
        )
        for signed in (False, True):
            free = self._order()
            if not len(free):
                break
            base = self._background() if not signed else self.centre
            search = PartialPointSearch(
                self.f,
                base,
                self._steps(),
                self.kinds,
                free,
                signed,
                allowed,
                lambda m: add(self._element(m, limit)),
                self.actions.two_sided,
            )
            try:
                search.generators([_of_inputs(g) for g in found])
                ended = search.complete
            except MetasymError:  # f may not take points about the centre
                ended = False
            if limit > CALLS.exact:
                self.near_complete &= ended
            else:
                self.complete &= ended
        return found

    def _order(self) -> Images:
        """The inputs that may move, those of small effect first: their own scale counts then."""
        effects = [float(self.quick.carries((i,)).sum()) for i in range(self.f.inputs)]
        return np.array([i for i in np.argsort(effects, kind="stable") if i not in self.idle], dtype=np.int64)

    def _steps(self) -> Array:
        """Different ones for all inputs, so that no other combination gives the same point."""
        size = np.array([self.spread[self.kinds == kind].mean() for kind in self.kinds])
        return np.asarray(size * (0.6 + 0.9 * (0.618034 * np.arange(1, len(size) + 1) % 1)))

    def _background(self) -> Array:
        """A point that every permutation keeps, and that is not special in another way."""
        middle = self.draws.centre
        found = np.empty_like(middle)
        for kind in set(self.kinds.tolist()):
            of = self.kinds == kind
            found[of] = middle[of].mean() + 0.31 * self.spread[of].mean()
        return found

    def _certified(
        self, generators: list[SignedPermutation], refused: list[tuple[SignedPermutation, Defect]]
    ) -> FoundGroup | None:
        """The group of those generators that fresh points allow, checked at products too."""
        kept = []
        worst = Defect(0.0, 0.0)
        for g in generators:
            defect = self.certificate.measure(g).worst
            if defect.upper <= self.limit:
                kept.append(g)
            else:
                refused.append((g, defect))
        if not kept:
            return None
        m = self.f.outputs
        chain = StabilizerChain(2 * (m + self.f.inputs))
        kept = [g for g in kept if chain.add(g.doubled)]
        group = SignedGroup(tuple(kept), (m, self.f.inputs), known_order=chain.order)
        products = (SignedPermutation.from_doubled(chain.random(), m) for _ in range(_PRODUCTS))
        some = group.elements[1:] if chain.order <= _ALL else (*kept, *products)
        for g in some:
            if g.is_identity:
                continue
            defect = self.certificate.measure(g).worst
            worst = worst.worst(defect)
            if defect.upper > self.limit:
                refused.append((g, defect))
                return None
        return FoundGroup(group, worst, len(some))


def _repeats(f: CalledFunction, draws: InputDraws, limit: float) -> int:
    """So many calls at a point that noise is small beside the tolerance, for a move of two inputs of equal effect."""
    if not f.noise.any():
        return 1
    share = f.noise_beside(f(draws.search)) ** 2
    return int(np.clip(np.ceil(CALLS.averaged * f.inputs * share / limit**2), 1, _MOST_REPEATS))


def idle_inputs(
    f: CalledFunction, draws: InputDraws, certificate: CallCertificate | None = None
) -> tuple[int, ...]:
    """Inputs that do not vary, or whose change changes nothing."""
    looked = certificate or CallCertificate(f, draws.search[:_QUICK], np.zeros(f.inputs))
    found = []
    for i in range(f.inputs):
        still = draws.spread[i] <= CALLS.still * (abs(draws.centre[i]) + 1e-300)
        if still or looked.carries((i,)).max() <= (100 * f.rounding) ** 2:
            found.append(i)
    return tuple(found)


def _kinds(spread: Array) -> Images:
    """Equal numbers for inputs whose spreads are alike, by gaps in their order."""
    order = np.argsort(spread, kind="stable")
    kinds = np.zeros(len(spread), dtype=np.int64)
    for before, here in itertools.pairwise(order):
        apart = spread[here] > CALLS.other_kind * spread[before] + 1e-300
        kinds[here] = kinds[before] + apart
    return kinds


def _centre(draws: InputDraws, kinds: Images) -> Array:
    """0 where the inputs are about 0, else their mean, kind by kind."""
    middle, spread = draws.centre, draws.spread
    found = np.zeros_like(middle)
    for kind in set(kinds.tolist()):
        of = kinds == kind
        if abs(middle[of].mean()) > 0.5 * spread[of].mean():
            found[of] = middle[of].mean()
    return found


def _of_inputs(g: SignedPermutation) -> SignedPermutation:
    """What it does to the inputs alone."""
    return SignedPermutation((), g.inputs, (), g.input_signs)
