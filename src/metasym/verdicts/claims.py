"""What ``discover`` claims, and the candidates that it looked at: values, the same for every kind of symmetry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.defects import defect_of
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.outcomes import Outcome

Kind = Literal["continuous", "finite"]
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Claim:
    """A symmetry of a function, or of all functions of a family, that held-out data certify."""

    kind: Kind
    name: str
    size: int
    """The order of a finite group, the dimension of an algebra."""
    generators: tuple[SignedPermutation, ...] | tuple[Matrix, ...]
    """Of a group, its moves; of an algebra, matrices ``[n, n+1]``: A with the column a beside it."""
    inputs: tuple[int, ...]
    """Those that are moved."""
    outputs: tuple[int, ...]
    violation_upper: float
    """The largest violation that the data allow, as a part of the variance of y: see :attr:`defect_upper`."""
    beta: float
    beta_ci: tuple[float, float]
    tested_on: int
    """Held-out examples, or held-out tasks of a family."""
    output_generators: tuple[Matrix, ...] = ()
    """What the generators of an algebra do to the outputs, ``[m, m+1]``; empty where it moves none."""
    defect: float | None = None
    """Of a function that was called: the root mean square of ``f(g x) - g' f(x)`` over that of what the moved inputs
    change, of the worst element. None for data."""
    centre: tuple[float, ...] = ()
    """Of a function that was called: the point about which moves are made, where it is not 0."""
    rows_upper: float | None = None
    """Upper bound on the share of new rows with a large violation (95 %); of a function, of points.

    A violation in fewer of them cannot be seen. None where rows were not looked at one by one.
    """
    input_names: tuple[str, ...] = ()
    """What the user calls the inputs, all of them; empty where none were given."""
    output_names: tuple[str, ...] = ()

    @classmethod
    def of_group(
        cls,
        name: str,
        order: int,
        generators: Sequence[SignedPermutation],
        *,
        violation_upper: float,
        beta: float,
        beta_ci: tuple[float, float],
        tested_on: int,
        defect: float | None = None,
        centre: tuple[float, ...] = (),
        rows_upper: float | None = None,
    ) -> Claim:
        """That of a finite group; what it moves follows from its generators."""
        return cls(
            "finite",
            name,
            order,
            tuple(generators),
            tuple(sorted({i for g in generators for i in g.moved_inputs})),
            tuple(sorted({k for g in generators for k in g.moved_outputs})),
            violation_upper,
            beta,
            beta_ci,
            tested_on,
            defect=defect,
            centre=centre,
            rows_upper=rows_upper,
        )

    def __repr__(self) -> str:
        size = f"{'order' if self.kind == 'finite' else 'dimension'} {self.size}"
        return (
            f"Claim({self.kind} {self.name}, {size}, moving {len(self.inputs)} inputs and {len(self.outputs)} "
            f"outputs, violation at most {self.violation_upper:.3g}, tested on {self.tested_on})"
        )

    @property
    def defect_upper(self) -> float:
        """The same as a relative root mean square defect, the unit of every judge."""
        return defect_of(self.violation_upper)

    @property
    def moves(self) -> tuple[SignedPermutation, ...]:
        """The generators of a finite group."""
        return tuple(g for g in self.generators if isinstance(g, SignedPermutation))

    def to_json(self) -> dict[str, Any]:
        """Plain types, as ``result.json`` has them under ``symmetries``."""
        finite = self.kind == "finite"
        found: dict[str, Any] = {
            "kind": self.kind,
            "name": self.name,
            "order" if finite else "dimension": self.size,
            "inputs": list(self.inputs),
            "generators": [g.as_dict() for g in self.moves] if finite else _lists(self.generators),
            "violation_upper": self.violation_upper,
            "defect_upper": self.defect_upper,
            "beta": self.beta,
            "beta_ci": list(self.beta_ci),
            "tested_on": self.tested_on,
        }
        if finite or self.outputs:
            found["outputs"] = list(self.outputs)
        if self.output_generators:
            found["output_generators"] = _lists(self.output_generators)
        if self.defect is not None:
            found["defect"] = self.defect
        if self.rows_upper is not None:
            found["rows_upper"] = self.rows_upper
        if self.centre:
            found["centre"] = list(self.centre)
        for key, names in (("input_names", self.input_names), ("output_names", self.output_names)):
            if names:
                found[key] = list(names)
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Claim:
        """The claim that :meth:`to_json` made ``value`` of."""
        finite = value["kind"] == "finite"
        generators: tuple[Any, ...] = (
            tuple(SignedPermutation.of(**g) for g in value["generators"])
            if finite
            else _tuples(value["generators"])
        )
        beta, low, high = (math.nan if b is None else b for b in (value["beta"], *value["beta_ci"]))
        return cls(
            value["kind"],
            value["name"],
            value["order" if finite else "dimension"],
            generators,
            tuple(value["inputs"]),
            tuple(value.get("outputs", ())),
            value["violation_upper"],
            beta,
            (low, high),
            value["tested_on"],
            _tuples(value.get("output_generators", ())),
            value.get("defect"),
            tuple(value.get("centre", ())),
            value.get("rows_upper"),
            tuple(value.get("input_names", ())),
            tuple(value.get("output_names", ())),
        )


@dataclass(frozen=True)
class CandidateVerdict:
    """A symmetry, or a space of them, that is not claimed: it was tested and failed, or it was not examined."""

    kind: Kind
    what: str
    """The space that was searched: ``rotations``, ``signed permutations``."""
    reasons: tuple[AnyDiscoveryReason, ...]

    @property
    def outcome(self) -> Outcome:
        """Not refuted where some part of it is not; else refuted, or not examined."""
        found = {reason.outcome for reason in self.reasons}
        for outcome in (Outcome.NOT_REFUTED, Outcome.REFUTED):
            if outcome in found:
                return outcome
        return Outcome.NOT_EXAMINED

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CandidateVerdict:
        """From what ``result.json`` has under ``refused``."""
        reasons = tuple(msgspec.convert(value["reasons"], list[AnyDiscoveryReason]))
        return cls(value["kind"], value["what"], reasons)


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value
