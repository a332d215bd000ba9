"""Symmetries of one function, from beginning to end: fit, search, certify, build in, score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from metasym.certification.certificate_thresholds import NEGLIGIBLE_VIOLATION
from metasym.discovery.claim_thresholds import ERRS_MORE
from metasym.discovery.continuous.equivariance_symmetries import pairs_in
from metasym.discovery.continuous.invariance_search import MOST_ROTATED, MOST_SHIFTED, plain_fit
from metasym.discovery.continuous.invariance_symmetries import invariances_in
from metasym.discovery.continuous.polynomial_symmetries import PolynomialModel, polynomial_in
from metasym.discovery.discovered import Discovered, Scores
from metasym.discovery.finite.finite_symmetries import finite_in
from metasym.discovery.finite.user_group import answer
from metasym.discovery.models.function_models import ComparedBy, FunctionModel, PlainProcess
from metasym.discovery.models.gaussian_processes import Array
from metasym.discovery.models.preprocessing import Prepared, prepare
from metasym.discovery.search_findings import Findings
from metasym.discovery.search_settings import Memory, Note, SearchSettings, forget
from metasym.inspection.given_groups import Hypothesis
from metasym.tasks.dataset import DataSet
from metasym.verdicts.claims import CandidateVerdict
from metasym.verdicts.discovery_reasons import TooManyInputs
from metasym.verdicts.discovery_verdict import DiscoveryVerdict


def discover_in(
    data: DataSet,
    options: SearchSettings,
    *,
    note: Note = lambda _: None,
    memory: Memory = forget,
    asked: Hypothesis | None = None,
) -> Discovered:
    """Look for symmetries in one data set; ``memory(stage, compute)`` may give what a stage found before.

    ``asked`` is a group that the user wants to know about as well.
    """
    prepared = prepare(data, options.seed, options.test)
    notes = [*([] if data.sampled is None else [str(data.sampled)]), *prepared.notes]
    generator = np.random.default_rng([options.seed, 2])
    note(f"fitting a model without symmetry to {len(prepared.train[0])} examples")
    plain = plain_fit(*prepared.train, generator)
    found = Findings()
    model: FunctionModel | None = None
    polynomial: PolynomialModel | None = None
    if options.continuous and not data.classes:
        found, polynomial, model = polynomial_in(prepared, plain, options, note, memory)
    if polynomial is not None:  # almost exact: what it refutes no poorer model may claim
        notes.append(f"the model without symmetry is a polynomial of {polynomial.support.size} terms")
    elif options.continuous:
        found, model = invariances_in(data, prepared, plain, options, note, memory)
        if not data.classes:
            pair, turned = pairs_in(prepared, options, note, memory)
            larger = pair.claims and (not found.claims or pair.claims[0].size > found.claims[0].size)
            if larger:
                model = turned
            found = Findings(pair.claims if larger else found.claims, found.refused + pair.refused)
        found = Findings(found.claims, found.refused + _not_looked_for(len(prepared.inputs)))
    finite: FunctionModel | None = None
    if options.finite:
        more, finite = finite_in(data, prepared, plain, options, note, memory, model)
        found = Findings(found.claims + more.claims, found.refused + more.refused)
    first = PlainProcess(prepared, plain) if polynomial is None else polynomial
    finished = _finish(data, prepared, first, (model, finite), found, notes)
    if asked is None:
        return finished
    return replace(finished, answer=answer(data, prepared, plain, options, asked, note, found.claims))


def _not_looked_for(inputs: int) -> tuple[CandidateVerdict, ...]:
    """The spaces of fields that are too large with so many inputs."""
    spaces = {"rotations": MOST_ROTATED, "translations and scalings": MOST_SHIFTED}
    return tuple(
        CandidateVerdict("continuous", what, (TooManyInputs(most, inputs),))
        for what, most in spaces.items()
        if inputs > most
    )


def _finish(
    data: DataSet,
    prepared: Prepared,
    plain: FunctionModel,
    models: tuple[FunctionModel | None, FunctionModel | None],
    findings: Findings,
    notes: list[str],
) -> Discovered:
    """Errors on held-out examples, and the model to use, fitted to all."""
    x_new, y_new = prepared.held_out
    metric = "accuracy" if data.classes else "mse"

    def scores(model: FunctionModel) -> Scores:
        found = model.predict(model.fit(*prepared.train), x_new)
        return _scores(found, y_new, prepared, metric)

    present = [one for one in models if one is not None]
    symmetric = present[0] if present else None
    if len(present) > 1:
        notes.append(
            "of the models with a symmetry, the one with the smaller error inside the training examples is used"
        )
        symmetric = _better(present[0], present[1], prepared)
    used = plain if symmetric is None else _used(plain, symmetric, prepared, notes)
    if (
        symmetric is not None
        and used is symmetric
        and not data.classes
        and _errs_more(symmetric, plain, prepared)
    ):
        # The claim rests on tests that hold for poor models too; which model predicts better is another question.
        notes.append(
            "the plain model is used: on held-out examples the model with the symmetry has a significantly larger "
            "error"
        )
        used = plain
    every = [np.concatenate(parts) for parts in zip(prepared.train, prepared.held_out, strict=True)]
    shape = (data.classes,) if data.classes else data.y_shape
    return Discovered(
        verdict=DiscoveryVerdict.of(
            findings.claims, findings.refused, inputs=data.input_names, outputs=data.output_names
        ),
        plain=scores(plain),
        symmetric=None if symmetric is None else scores(symmetric),
        state=used.state(used.fit(every[0], every[1]), shape),
        metric=metric,
        examples=len(data.x),
        held_out=len(x_new),
        notes=notes,
    )


def _used(
    plain: FunctionModel, symmetric: FunctionModel, prepared: Prepared, notes: list[str]
) -> FunctionModel:
    """The model with the symmetry, unless the plain one is better by what the two are compared by."""
    match symmetric.compared_by:
        case ComparedBy.ERRORS if _better(plain, symmetric, prepared) is plain:
            notes.append("the plain model is used: its error inside the training examples is smaller")
            return plain
        case ComparedBy.EVIDENCE if plain.evidence > symmetric.evidence:
            notes.append("the plain model is used: it has the higher evidence")
            return plain
    return symmetric


def _errs_more(model: FunctionModel, other: FunctionModel, prepared: Prepared) -> bool:
    """Whether one model errs more than another on held-out examples, each compared with itself, beyond chance."""
    x, y = prepared.held_out
    first, second = (((one.predict(one.fit(*prepared.train), x) - y) ** 2).sum(1) for one in (model, other))
    more = first - second
    reach = float(stdtrit(len(more) - 1, ERRS_MORE)) * float(more.std(ddof=1)) / len(more) ** 0.5
    return bool(float(more.mean()) > max(reach, NEGLIGIBLE_VIOLATION * float(y.var(0).sum())))


def _better(model: FunctionModel, other: FunctionModel, prepared: Prepared) -> FunctionModel:
    """Which of two models errs less on the last quarter of the training examples, fitted to the others."""
    x, y = prepared.train
    first, last = np.split(np.arange(len(x)), [3 * len(x) // 4])
    found = [one.predict(one.fit(x[first], y[first]), x[last]) for one in (model, other)]
    errors = [float(((one - y[last]) ** 2).mean()) for one in found]
    return model if errors[0] <= errors[1] else other


def _scores(found: Array, y: Array, prepared: Prepared, metric: str) -> Scores:
    errors = (found - y) ** 2
    squares = errors.mean(1)
    spread = ((y - y.mean(0)) ** 2).mean(0)  # 0 where all held-out examples have one label
    whole = float(spread.mean())
    relative = float(squares.mean()) / whole if whole else float("nan")
    own = np.where(spread > 0, errors.mean(0) / np.where(spread > 0, spread, 1.0), np.nan)
    each = (
        (found.argmax(1) != y.argmax(1)).astype(float) if metric == "accuracy" else squares * prepared.unit**2
    )
    reach = 1.96 * float(each.std(ddof=1)) / len(each) ** 0.5
    by_output = tuple(own.tolist()) if metric == "mse" and y.shape[1] > 1 else ()
    return Scores(float(each.mean()), reach, relative, by_output)
