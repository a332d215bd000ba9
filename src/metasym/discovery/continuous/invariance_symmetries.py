"""Continuous symmetries that keep one function's outputs: hypotheses, then spaces of fields; what is claimed of all.

Inputs as vectors are asked directly first. Then come rotations, translations and affine fields, and the scalings of
inputs of one sign, which are translations of their logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.certified_algebras import name_of_fields
from metasym.discovery.continuous.idle_directions import translations
from metasym.discovery.continuous.invariance_claims import judge
from metasym.discovery.continuous.invariance_search import (
    MOST_SHIFTED,
    TRANSLATIONS,
    Candidate,
    ambients,
    plain_fit,
    search,
)
from metasym.discovery.continuous.vector_hypotheses import VECTORS, likely_vectors
from metasym.discovery.models.function_models import InvariantProcess
from metasym.discovery.models.gaussian_processes import Array, Hyper
from metasym.discovery.models.invariant_features import SymmetricFit, symmetric_fit
from metasym.discovery.models.logarithms import Logarithms, logarithms
from metasym.discovery.models.preprocessing import Prepared
from metasym.discovery.search_findings import Findings
from metasym.discovery.search_settings import Memory, Note, SearchSettings
from metasym.tasks.dataset import DataSet
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.discovery_reasons import ExplainedBetter, LeavesInputs

SCALINGS = "scalings of inputs of one sign"


@dataclass(frozen=True, eq=False)
class Explained:
    """What a space of candidates ended with: a claim or none, and the model of its likeliest algebra."""

    name: str
    claim: Claim | None
    fit: SymmetricFit
    taken: Logarithms | None = None


def invariances_in(
    data: DataSet, prepared: Prepared, plain: Hyper, options: SearchSettings, note: Note, memory: Memory
) -> tuple[Findings, InvariantProcess | None]:
    """The algebra that is claimed and what is not claimed; its model."""
    refused: list[CandidateVerdict] = []
    seen: list[Explained] = []

    def ask(
        name: str, look: Callable[[], Candidate | None], prepared: Prepared, taken: Logarithms | None
    ) -> None:
        stage = memory(name, lambda: _stage(name, look(), prepared, plain, options, taken))
        found = Findings.from_stage(stage)
        if found.claims or found.refused:
            note(f"{name}: {found.words}")
        refused.extend(found.refused)
        # On inputs that fulfil an equation a field that leads away from it has no say: its model is that of another
        # algebra, which stays, with fewer invariants.
        leaves = any(isinstance(why, LeavesInputs) for one in found.refused for why in one.reasons)
        if len(stage["polynomials"]) and not leaves:
            # The same examples for all: evidence is compared.
            generator = np.random.default_rng([options.seed, 4])
            fit = symmetric_fit(np.array(stage["polynomials"]), *prepared.train, generator)
            seen.append(Explained(name, next(iter(found.claims), None), fit, taken))

    note("testing which inputs may be vectors")
    ask(
        VECTORS,
        lambda: likely_vectors(prepared, plain, np.random.default_rng([options.seed, 5])),
        prepared,
        None,
    )
    for index, (name, ambient) in enumerate(ambients(prepared.train[0]).items()):
        note(f"searching for continuous symmetries among {name} ({len(ambient)} directions)")
        draw = np.random.default_rng([options.seed, 3, index])

        def look(name: str = name, ambient: Array = ambient, draw: np.random.Generator = draw) -> Candidate:
            return search(name, ambient, *prepared.train, plain, draw, note)

        ask(name, look, prepared, None)
    taken = logarithms(data, prepared, options.seed, options.test)
    if taken is not None and len(prepared.inputs) <= MOST_SHIFTED:
        note(f"searching for continuous symmetries among {SCALINGS}")
        ask(SCALINGS, lambda: _scalings(taken, options.seed, note), taken.taken, taken)
    best, more = likeliest(seen)
    if best is None:
        return Findings((), (*refused, *more)), None
    assert best.claim is not None
    return Findings((best.claim,), (*refused, *more)), InvariantProcess(
        prepared, best.fit, best.claim, best.taken
    )


def _scalings(taken: Logarithms, seed: int, note: Note) -> Candidate:
    """Translations of logarithms."""
    x, y = taken.taken.train
    draw = np.random.default_rng([seed, 6])
    return search(TRANSLATIONS, translations(x.shape[1]), x, y, plain_fit(x, y, draw), draw, note)


def _stage(
    name: str,
    candidate: Candidate | None,
    prepared: Prepared,
    plain: Hyper,
    options: SearchSettings,
    taken: Logarithms | None,
) -> dict[str, Any]:
    """What is kept of one space of candidates."""
    if candidate is None:
        return Findings().to_stage(polynomials=[], levels=[])
    draw = np.random.default_rng([options.seed, 7])
    claim, reasons = judge(candidate, prepared, plain, draw, options.tolerance)
    if claim is not None and taken is not None:
        fields = np.array(taken.claim(claim, "").generators)
        claim = taken.claim(claim, name_of_fields(fields))
    found = Findings.of("continuous", name, () if claim is None else (claim,), reasons)
    return found.to_stage(
        polynomials=candidate.polynomials.tolist() if len(prepared.inputs) else [],
        levels=[vars(level) for level in candidate.levels],
    )


def likeliest(seen: list[Explained]) -> tuple[Explained | None, list[CandidateVerdict]]:
    """Of what is certified, the largest algebra whose model no other explains the data better than.

    Where a model with another symmetry, claimed or not, has the higher evidence, what the first leaves is no noise.
    """
    highest = max((one.fit.hyper.evidence for one in seen), default=0.0)
    best: Explained | None = None
    refused = []
    likely = [one.claim for one in seen if one.fit.hyper.evidence >= highest - CONTINUOUS.evidence]
    for one in seen:
        if one.claim is None or any(other and one.claim.size < other.size for other in likely):
            continue  # one that is smaller may be a part of what is claimed
        if one.fit.hyper.evidence < highest - CONTINUOUS.evidence:
            refused.append(CandidateVerdict("continuous", one.name, (ExplainedBetter(one.claim.name),)))
        elif best is None or best.claim is None or one.claim.size > best.claim.size:
            best = one
    return best, refused
