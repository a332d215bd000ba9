"""Symmetries of one function, from beginning to end: fit, search, certify, build in, score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from torch import nn

from metasym.discovery.continuous.equivariance_symmetries import TurnedModel, pairs_in
from metasym.discovery.continuous.invariance_claims import judge
from metasym.discovery.continuous.invariance_search import (
    MOST_ROTATED,
    MOST_SHIFTED,
    NOTHING,
    ambients,
    plain_fit,
    search,
)
from metasym.discovery.continuous.polynomial_symmetries import PolynomialModel, polynomial_in
from metasym.discovery.finite.finite_symmetries import FiniteModel, finite_in
from metasym.discovery.models.fitted_module import State, module_of, state_of
from metasym.discovery.models.gaussian_processes import Array, Hyper, posterior
from metasym.discovery.models.invariant_features import SymmetricFit, symmetric_fit
from metasym.discovery.models.preprocessing import Prepared, prepare
from metasym.discovery.search_settings import Memory, Note, SearchSettings, forget
from metasym.tasks.dataset import DataSet

Smooth = SymmetricFit | TurnedModel | PolynomialModel
"""A model with a continuous symmetry."""
Fitted = TypeVar("Fitted", bound=Smooth | Hyper)


@dataclass(frozen=True, eq=False)
class Scores:
    """A model's error on examples that took no part in anything."""

    error: float
    """Mean squared error over examples and outputs, in the units of y; for labels 1 - accuracy."""
    interval: float
    """Half of its 95 % interval."""
    relative: float
    """The mean squared error divided by the variance of y."""

    def as_dict(self, metric: str) -> dict[str, Any]:
        """Plain types, for ``result.json``."""
        value = 1 - self.error if metric == "accuracy" else self.error
        return {"metric": metric, "mean": value, "ci95": self.interval, "relative": self.relative}


@dataclass(frozen=True, eq=False)
class Discovered:
    """What was found in one data set."""

    symmetries: list[dict[str, Any]]
    """What is claimed, as in ``result.json``; empty where nothing is."""
    refused: list[dict[str, str]]
    """What was looked at and is not claimed, with the reason."""
    plain: Scores
    symmetric: Scores | None
    """The error with what is claimed built in; None where nothing is."""
    state: State
    """What defines the model."""
    metric: str
    examples: int
    held_out: int
    notes: list[str] = field(default_factory=list)
    family: bool = False
    """Whether these are tasks of a family: ``examples`` and ``held_out`` count tasks then."""

    @property
    def model(self) -> nn.Module:
        """Of one function: with the symmetry where that has the higher evidence, fitted to all examples."""
        return module_of(self.state)

    @property
    def verdict(self) -> str:
        """In one line."""
        if not self.symmetries:
            return "no symmetry is claimed"
        return "; ".join(_words(found) for found in self.symmetries)


def discover_in(
    data: DataSet, options: SearchSettings, *, note: Note = lambda _: None, memory: Memory = forget
) -> Discovered:
    """Look for symmetries in one data set; ``memory(stage, compute)`` may give what a stage found before."""
    prepared = prepare(data, options.seed, options.test)
    notes = [*([] if data.sampled is None else [str(data.sampled)]), *prepared.notes]
    generator = np.random.default_rng([options.seed, 2])
    note(f"fitting a model that knows no symmetry to {len(prepared.train[0])} examples")
    plain = plain_fit(*prepared.train, generator)
    symmetries: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    model: Smooth | None = None
    polynomial: PolynomialModel | None = None
    if options.continuous and not data.classes:
        polynomial, claimed, reason = polynomial_in(prepared, plain, options, note, memory)
    if polynomial is not None:  # next to exact: what it refutes no poorer model may claim
        notes.append(f"the model that knows no symmetry is a polynomial of {polynomial.support.size} terms")
        if claimed is not None:
            symmetries, model = claimed
        else:
            refused.append({"kind": "continuous", "what": "polynomials", "reason": reason})
    elif options.continuous:
        found, more = _continuous(prepared, plain, options, note, memory)
        refused += more
        if found is not None:
            claim, model = found
            symmetries.append(claim)
        if not data.classes:
            pair, more = pairs_in(prepared, options, note, memory)
            refused += more
            if pair is not None and (not symmetries or pair[0]["dimension"] > symmetries[0]["dimension"]):
                symmetries, model = [pair[0]], pair[1]
        for what, most in (("rotations", MOST_ROTATED), ("translations and scalings", MOST_SHIFTED)):
            if len(prepared.inputs) > most:
                notes.append(
                    f"{what} were not looked for: expected at most {most} inputs, found {len(prepared.inputs)}"
                )
    finite: FiniteModel | None = None
    if options.finite:
        claims, finite, more = finite_in(data, prepared, plain, options, note, memory)
        symmetries += claims
        refused += more
    first = plain if polynomial is None else polynomial
    return _finish(data, prepared, first, (model, finite), symmetries, refused, notes)


def _continuous(
    prepared: Prepared, plain: Hyper, options: SearchSettings, note: Note, memory: Memory
) -> tuple[tuple[dict[str, Any], SymmetricFit] | None, list[dict[str, str]]]:
    """The algebra that is claimed, with its model; and what is not claimed."""
    refused = []
    seen: list[tuple[str, dict[str, Any] | None, SymmetricFit]] = []
    for index, (name, ambient) in enumerate(ambients(prepared.train[0]).items()):
        note(f"looking for continuous symmetries among {name} ({len(ambient)} directions)")

        def look(index: int = index, name: str = name, ambient: Array = ambient) -> dict[str, Any]:
            generator = np.random.default_rng([options.seed, 3, index])
            candidate = search(name, ambient, *prepared.train, plain, generator, note)
            claim, reason = judge(candidate, prepared, plain, generator, options.tolerance)
            return {
                "claim": None if claim is None else claim.as_dict(),
                "polynomials": candidate.polynomials.tolist() if len(prepared.inputs) else [],
                "reason": reason,
                "levels": [vars(level) for level in candidate.levels],
            }

        found = memory(name, look)
        note(f"{name}: {found['reason']}")
        if found["claim"] is None:
            refused.append({"kind": "continuous", "what": name, "reason": found["reason"]})
        if len(found["polynomials"]):
            generator = np.random.default_rng(
                [options.seed, 4]
            )  # the same examples for all: evidence is compared
            polynomials = np.array(found["polynomials"])
            seen.append((name, found["claim"], symmetric_fit(polynomials, *prepared.train, generator)))
    best, more = likeliest(seen)
    return best, refused + more


def likeliest(
    seen: list[tuple[str, dict[str, Any] | None, SymmetricFit]],
) -> tuple[tuple[dict[str, Any], SymmetricFit] | None, list[dict[str, str]]]:
    """Of what is certified, the largest algebra whose model no other explains the data better than.

    Where a model with another symmetry, claimed or not, has the higher evidence, what the first leaves is no noise.
    """
    highest = max((fit.hyper.evidence for _, _, fit in seen), default=0.0)
    best: tuple[dict[str, Any], SymmetricFit] | None = None
    refused = []
    likely = [claim for _, claim, fit in seen if claim and fit.hyper.evidence >= highest - NOTHING]
    for name, claim, fit in seen:
        if claim is None or any(claim["dimension"] < other["dimension"] for other in likely):
            continue  # one that is smaller may be a part of what is claimed
        if fit.hyper.evidence < highest - NOTHING:
            reason = (
                f"{claim['name']} is refuted by a model with another symmetry, which explains the data better"
            )
            refused.append({"kind": "continuous", "what": name, "reason": reason})
        elif best is None or claim["dimension"] > best[0]["dimension"]:
            best = claim, fit
    return best, refused


def _finish(
    data: DataSet,
    prepared: Prepared,
    plain: Hyper | PolynomialModel,
    models: tuple[Smooth | None, FiniteModel | None],
    symmetries: list[dict[str, Any]],
    refused: list[dict[str, str]],
    notes: list[str],
) -> Discovered:
    """Errors on held-out examples, and the model to use, fitted to all."""
    x, y = prepared.train
    x_new, y_new = prepared.held_out
    metric = "accuracy" if data.classes else "mse"
    every = np.concatenate([x, x_new]), np.concatenate([y, y_new])
    shape = (data.classes,) if data.classes else data.y_shape
    symmetric_scores = None
    model, finite = models
    if isinstance(plain, PolynomialModel):
        plain_scores = _scores(plain(plain.fit(x, y), x_new), y_new, prepared, metric)
        plain_state = plain.state(plain.fit(*every), shape)
    else:
        plain_scores = _scores(posterior(plain, x, y)(x_new), y_new, prepared, metric)
        plain_state = state_of(prepared, None, posterior(plain, *every), shape)
    state = plain_state
    if model is not None and finite is not None:
        notes.append(
            "of the models with a symmetry the one is used that errs less inside the training examples"
        )
        model, finite = _better(model, finite, prepared)
    if finite is not None:
        found = finite.predictions(np.arange(len(x)), held_out=True)
        symmetric_scores = _scores(found, y_new, prepared, metric)
        state = finite.state(shape)
        if _better(plain, finite, prepared)[1] is None:
            notes.append("the plain model errs less inside the training examples and is the one to use")
            state = plain_state
    elif isinstance(model, TurnedModel | PolynomialModel):
        symmetric_scores = _scores(_predicted(model, (x, y), x_new), y_new, prepared, metric)
        if isinstance(model, TurnedModel):
            state = model.state(model.fit(*every), prepared, shape)
        else:
            state = model.state(model.fit(*every), shape)
    elif model is not None:
        symmetric_scores = _scores(_predicted(model, (x, y), x_new), y_new, prepared, metric)
        state = state_of(prepared, model.features, model.fit(*every), shape)
        if isinstance(plain, Hyper) and plain.evidence > model.hyper.evidence:
            notes.append("the plain model has the higher evidence and is the one to use")
            state = plain_state
    return Discovered(
        symmetries=symmetries,
        refused=refused,
        plain=plain_scores,
        symmetric=symmetric_scores,
        state=state,
        metric=metric,
        examples=len(data.x),
        held_out=len(x_new),
        notes=notes,
    )


def _better(
    model: Fitted, finite: FiniteModel, prepared: Prepared
) -> tuple[Fitted | None, FiniteModel | None]:
    """Which of two models errs less on the last quarter of the training examples, fitted to the others."""
    x, y = prepared.train
    first, last = np.split(np.arange(len(x)), [3 * len(x) // 4])
    found = _predicted(model, (x[first], y[first]), x[last])
    other = finite.predictions(first, held_out=False, points=last)
    smooth, finitely = (float(((one - y[last]) ** 2).mean()) for one in (found, other))
    return (model, None) if smooth <= finitely else (None, finite)


def _predicted(model: Smooth | Hyper, examples: tuple[Array, Array], x_new: Array) -> Array:
    """What a model that is fitted to ``examples`` says at ``x_new``."""
    if isinstance(model, Hyper):
        return posterior(model, *examples)(x_new)
    if isinstance(model, SymmetricFit):
        return model.fit(*examples)(model.inputs(x_new))
    if isinstance(model, TurnedModel):
        return model(model.fit(*examples), x_new)
    return model(model.fit(*examples), x_new)


def _scores(found: Array, y: Array, prepared: Prepared, metric: str) -> Scores:
    squares = ((found - y) ** 2).mean(1)
    spread = float(((y - y.mean(0)) ** 2).mean())  # 0 where all held-out examples have one label
    relative = float(squares.mean()) / spread if spread else float("nan")
    each = (
        (found.argmax(1) != y.argmax(1)).astype(float) if metric == "accuracy" else squares * prepared.unit**2
    )
    reach = 1.96 * float(each.std(ddof=1)) / len(each) ** 0.5
    return Scores(float(each.mean()), reach, relative)


def _words(found: dict[str, Any]) -> str:
    size = (
        f"of dimension {found['dimension']}"
        if found["kind"] == "continuous"
        else f"of order {found['order']}"
    )
    where = f"inputs {_inputs(found['inputs'])}"
    if found.get("outputs"):
        where += f" and outputs {_inputs(found['outputs'])}"
    return f"{found['kind']} symmetry {found['name']}, {size}, acting on {where}"


def _inputs(numbers: list[int]) -> str:
    """``0-4, 7``: numbers in runs."""
    runs: list[list[int]] = []
    for i in numbers:
        if runs and i == runs[-1][-1] + 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
