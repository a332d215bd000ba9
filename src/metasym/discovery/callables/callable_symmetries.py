"""Finite symmetries of a function that can be called: signed permutations with ``f(g x) = g' f(x)``.

Candidates come from calls at chosen points; every claim is checked at fresh points. What holds up to rounding and
what holds nearly are two claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables import centre_search
from metasym.discovery.callables.call_certificate import (
    FEW,
    CallCertificate,
    Defects,
    idle_inputs,
    share_upper,
)
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.input_draws import InputDraws, input_kinds, likely_centre
from metasym.discovery.callables.matrix_entries import coupled_order, entry_sizes
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
_ALL = 60
"""Groups up to this order are checked element by element, others by generators and random products."""
_PRODUCTS = 20
"""Random products of generators that are called for a larger group."""
_ROUNDS = 4
"""Searches for exact moves at most, each with the points that refused what the one before had found."""
_MOST_REPEATS = 64
"""Calls at one point at most, where f is noisy."""


@dataclass(frozen=True, eq=False)
class FoundGroup:
    """A group with the worst defect of the elements that were called."""

    group: SignedGroup
    defect: Defect
    elements: int
    """How many were called."""
    rows_upper: float
    """The share of further points that may violate it much more."""


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
        self.kinds = input_kinds(self.spread)
        self.given = centre is not None
        self.centre = likely_centre(draws, self.kinds) if centre is None else centre
        looked = draws.search[: 4 * FEW]
        self.two_sided = two_sided
        self._look_at(looked[:FEW] if len(looked) >= FEW else looked)
        self.certificate = CallCertificate(f, draws.fresh(POINTS), self.centre)
        self.tried = 0
        self.barred: set[SignedPermutation] = set()
        self.complete = self.near_complete = True
        self.idle = idle_inputs(f, draws, self.quick)
        if two_sided:  # an input without effect still turns its row and column
            rows = np.abs(self.quick.y).reshape(-1, f.inputs, f.inputs).max((0, 2))
            self.idle = tuple(i for i in self.idle if not rows[i] or not self.spread[i])

    def _look_at(self, x: Array) -> None:
        self.quick = CallCertificate(self.f, x, self.centre)
        self.actions = OutputActions(self.f, self.quick.x, self.quick.y, self.two_sided)

    def run(self) -> FiniteFindings:
        """Exact ones first, then nearly exact ones."""
        refused_exact: list[tuple[SignedPermutation, Defect]] = []
        suggestions, exact, found = self._exact(refused_exact)
        if self._looks_for_a_centre():
            suggestions, exact, found = self._about_other_centres(suggestions, exact, found)
        near, refused = self._near(suggestions, exact, 1 if found is None else found.group.order)
        refused = refused or refused_exact
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

    def _exact(
        self, refused: list[tuple[SignedPermutation, Defect]]
    ) -> tuple[list[SignedPermutation], list[SignedPermutation], FoundGroup | None]:
        """Moves that are worth a look about the present centre, generators of exact ones, and their group.

        None where f is noisy: there noise alone would decide which of the true ones seem to be exact. A move that few
        points allow and others refuse may have made true ones unnecessary: the search is repeated with those others.
        """
        suggestions = self._promising(suggested_moves(self.f.inputs, self.f.input_shape))
        if self.f.noise.any():
            return suggestions, [], None
        for left in reversed(range(_ROUNDS)):
            self.complete = True
            refused.clear()
            exact = self._generators(suggestions, 1e3 * self.f.rounding, [])
            against: list[Array] = []
            found = self._certified(exact, refused, against)
            if not against or not left:
                break
            self._look_at(np.concatenate([self.quick.x, *against]))
        return suggestions, exact, found

    def _near(
        self, suggestions: list[SignedPermutation], exact: list[SignedPermutation], order: int
    ) -> tuple[FoundGroup | None, list[tuple[SignedPermutation, Defect]]]:
        """The largest group that holds nearly, of more than ``order`` elements, and what fresh points refuse.

        What is refused may have made others unnecessary: the search is repeated without it.
        """
        near: FoundGroup | None = None
        refused: list[tuple[SignedPermutation, Defect]] = []
        for _ in range(_ROUNDS):
            some: list[tuple[SignedPermutation, Defect]] = []
            nearly = self._generators(suggestions, self.limit, list(exact))
            found = self._certified(nearly, some, []) if len(nearly) > len(exact) else None
            if found is not None and found.group.order > (order if near is None else near.group.order):
                near = found
            refused += some
            others = {_of_inputs(g) for g, _ in some} - self.barred
            if not others:
                break
            self.barred |= others
        return near, refused

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
            others = self._exact([])
            again = others[2]
            self.complete = ended
            if again is not None and (found is None or again.group.order > found.group.order):
                suggestions, exact, found, best = *others, centre
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
        if _of_inputs(move) in self.barred:
            return None
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
        near = limit > CALLS.exact
        sizes = entry_sizes(self.quick.y) if near and self.two_sided else None
        allowed = limit if sizes is not None else CALLS.nearly if near else 1e3 * self.f.rounding
        self.note(f"{len(found)} moves keep f {'nearly' if near else 'exactly'}; searching for more")
        for signed in (False, True):
            free = self._order() if sizes is None else coupled_order(self.quick.y, sizes, self.idle)
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
                self.two_sided,
                sizes,
            )
            try:
                search.generators([_of_inputs(g) for g in found])
                ended = search.complete
            except MetasymError:  # f may not take points about the centre
                ended = False
            if near:
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
        self,
        generators: list[SignedPermutation],
        refused: list[tuple[SignedPermutation, Defect]],
        against: list[Array],
    ) -> FoundGroup | None:
        """The group of those generators that fresh points allow, checked at products too.

        ``against`` receives, of each move that is not exact, the point that refuses it most and its image.
        """
        kept = []
        worst = Defect(0.0, 0.0)
        by_point: Array = np.zeros(len(self.certificate.x))
        for g in generators:
            measured = self.certificate.measure(g)
            defect = measured.worst
            against += self._refusing(g, measured)
            if defect.upper <= self.limit:
                kept.append(g)
            else:
                refused.append((g, defect))
        if not kept:
            return None
        group, some = self._tested(kept)
        for g in some:
            measured = self.certificate.measure(g)
            defect = measured.worst
            against += self._refusing(g, measured)
            worst, by_point = worst.worst(defect), np.maximum(by_point, measured.by_point)
            if defect.upper > self.limit:
                refused.append((g, defect))
        if worst.upper > self.limit:
            return None
        return FoundGroup(group, worst, len(some), share_upper(by_point, worst.upper))

    def _refusing(self, g: SignedPermutation, measured: Defects) -> list[Array]:
        worst = int(measured.by_point.argmax())
        if measured.by_point[worst] <= CALLS.few_points * 1e3 * self.f.rounding:
            return []
        x = self.certificate.x[worst][None]
        return [x, moved(g, x, self.centre)]

    def _tested(
        self, generators: list[SignedPermutation]
    ) -> tuple[SignedGroup, tuple[SignedPermutation, ...]]:
        """Their group, and the elements of it that are called: all of a small one, else generators and products."""
        m = self.f.outputs
        chain = StabilizerChain(2 * (m + self.f.inputs))
        kept = tuple(g for g in generators if chain.add(g.doubled))
        group = SignedGroup(kept, (m, self.f.inputs), known_order=chain.order)
        products = (SignedPermutation.from_doubled(chain.random(), m) for _ in range(_PRODUCTS))
        some = group.elements[1:] if chain.order <= _ALL else (*kept, *products)
        return group, tuple(g for g in some if not g.is_identity)


def _repeats(f: CalledFunction, draws: InputDraws, limit: float) -> int:
    """So many calls at a point that noise is small beside the tolerance, for a move of two inputs of equal effect."""
    if not f.noise.any():
        return 1
    share = f.noise_beside(f(draws.search)) ** 2
    return int(np.clip(np.ceil(CALLS.averaged * f.inputs * share / limit**2), 1, _MOST_REPEATS))


def _of_inputs(g: SignedPermutation) -> SignedPermutation:
    """What it does to the inputs alone."""
    return SignedPermutation((), g.inputs, (), g.input_signs)
