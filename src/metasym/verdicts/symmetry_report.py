"""What an inspection of a model found, layer by layer: printed, stored and read again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from metasym.storage.described import described
from metasym.types import MetasymError, shortened
from metasym.verdicts.group_words import found_words
from metasym.verdicts.layer_words import summary_words, verdict_words
from metasym.verdicts.reports import GroupErrors, LayerReport

VERSION = 2
"""Of the JSON; reports of other versions are refused."""


@dataclass(frozen=True)
class SymmetryReport:
    """What each reparameterized layer of a model has learned, in the order of the layers."""

    layers: tuple[LayerReport, ...]
    end_to_end: GroupErrors | None = None
    """Input to output, for a group that was asked about."""

    def __iter__(self) -> Iterator[LayerReport]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layer: int | str) -> LayerReport:
        if isinstance(layer, int):
            return self.layers[layer]
        for report in self.layers:
            if report.name == layer:
                return report
        raise MetasymError(
            f"expected one of the layers {', '.join(repr(r.name) for r in self.layers)}, found {layer!r}",
            about="layer",
            found=layer,
        )

    def __repr__(self) -> str:
        return shortened(f"SymmetryReport({'; '.join(map(_briefly, self.layers)) or 'no layers'})")

    def _repr_html_(self) -> str:
        from metasym.verdicts import notebooks  # only they ask

        return notebooks.cards(self)

    def plot(self) -> Any:
        """Draw the sharing pattern and the singular values of every layer, and return the matplotlib figure."""
        from metasym.verdicts import notebooks

        return notebooks.figure(self)

    def __str__(self) -> str:
        lines = [f"{r.name or 'the layer'}: {verdict_words(r)}" for r in self.layers]
        return "\n".join([*lines, *(_answer(r) for r in self.layers if r.answer is not None)])

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for ``json.dumps``."""
        return {
            "version": VERSION,
            "layers": [_layer_json(layer) for layer in self.layers],
            "end_to_end": _lists(msgspec.to_builtins(self.end_to_end)),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], name: str = "symmetry report") -> SymmetryReport:
        """The report that :meth:`to_json` made ``value`` of; ``name`` is what errors call its file."""
        found = value.get("version") if isinstance(value, dict) else None
        if found is not None and found != VERSION:
            raise MetasymError(
                f"{name}: expected a symmetry report of version {VERSION}, found {found!r:.60}",
                about=f"{name}: version",
                found=found,
            )
        report: SymmetryReport = described(value, cls, name)
        for index, layer in enumerate(report.layers):
            _check_layer(layer, f"{name}: layers[{index}]")
        return report


def _briefly(layer: LayerReport) -> str:
    return f"{layer.name or 'the layer'}: {summary_words(layer)}"


def _answer(layer: LayerReport) -> str:
    from metasym.verdicts.answer_words import answer_words  # few users ask

    return answer_words(layer)


def _layer_json(layer: LayerReport) -> dict[str, Any]:
    found: dict[str, Any] = _lists(msgspec.to_builtins(layer))
    if layer.group is not None:
        found["group"] |= {
            "transitive": layer.group.transitive,
            "approximate": layer.group.approximate,
            "words": found_words(layer),
        }
    found["verdict"]["words"] = verdict_words(layer)
    if layer.answer is not None:
        found["answer"]["verdict"]["words"] = _answer(layer)
    return {**found, "residual": layer.residual, "margin": layer.margin}


def _lists(value: Any) -> Any:
    """The value as it comes back from JSON, which knows no tuples."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _check_layer(layer: LayerReport, name: str) -> None:
    """Refuse what fits the types but no weight: elements that permute something else, a pattern of another size."""
    groups = [] if layer.group is None else [layer.group.generators]
    size = layer.weight_shape[:1], {math.prod(layer.weight_shape[1:]), *layer.weight_shape[1:2]}
    if layer.answer is not None:
        groups.append(layer.answer.asked.generators)
    for element in (g for generators in (*groups, *(r.generators for r in layer.ladder)) for g in generators):
        if (len(element.outputs),) != size[0] or len(element.inputs) not in size[1]:
            raise MetasymError(
                f"{name}: expected elements that permute the outputs and inputs of a weight "
                f"{list(layer.weight_shape)}, found another",
                about=f"{name}: generators",
                found=(len(element.outputs), len(element.inputs)),
            )
    if layer.pattern is not None:
        found = {len(row) for row in layer.pattern.classes}
        largest = max((abs(c) for row in layer.pattern.classes for c in row), default=0)
        fits = (len(layer.pattern.classes),) == layer.weight_shape[:1] and len(found) == 1
        if not fits or largest > math.prod(layer.weight_shape):
            raise MetasymError(
                f"{name}: expected a pattern of a weight {list(layer.weight_shape)}, found one of another size",
                about=f"{name}: pattern",
                found=(len(layer.pattern.classes), sorted(found), largest),
            )
