"""What a reparameterized model costs compared with the plain one, layer by layer."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.symmetry.cost_of_weight import Cost
from metasym.symmetry.reparam import bake, symmetric_lists, symmetries
from metasym.types import MetasymError


@dataclass(frozen=True)
class LayerCost:
    """One layer's row of the table."""

    name: str
    weight_shape: tuple[int, ...]
    filter_shape: tuple[int, ...]
    cost: Cost
    forward_multiply_adds: int | None
    """Multiply-adds of the plain layer on the example batch; None without such a batch."""


@dataclass(frozen=True)
class ModelCost:
    """The rows of all reparameterized layers; ``str`` makes the table."""

    layers: tuple[LayerCost, ...]
    other_entries: int
    """Parameters that no symmetry touches: biases, norms, plain layers."""

    @property
    def entries(self) -> int:
        """All entries of U, v and the rest."""
        return self.other_entries + sum(row.cost.entries for row in self.layers)

    @property
    def plain_entries(self) -> int:
        """All parameters of the plain model."""
        return self.other_entries + sum(row.cost.plain_entries for row in self.layers)

    def __repr__(self) -> str:
        return f"ModelCost({len(self.layers)} layers, {self.entries:,} entries, plain {self.plain_entries:,})"

    def __str__(self) -> str:
        timed = any(row.forward_multiply_adds is not None for row in self.layers)
        head = [
            "layer",
            "weight",
            "filter",
            "plain",
            "U",
            "v",
            "U+v / plain",
            "bytes",
            "plain bytes",
            "build W",
        ]
        rows = [head + (["forward", "forward+build / forward"] if timed else [])]
        for row in self.layers:
            c = row.cost
            cells = [
                row.name or "(model)",
                "x".join(map(str, row.weight_shape)),
                "x".join(map(str, row.filter_shape)),
                *(f"{n:,}" for n in (c.plain_entries, c.symmetry_entries, c.filter_entries)),
                f"{c.memory_ratio:.2f}",
                *(f"{n:,}" for n in (c.bytes, c.plain_bytes, c.build_multiply_adds)),
            ]
            forward = row.forward_multiply_adds
            if forward is not None:
                cells += [f"{forward:,}", f"{(forward + c.build_multiply_adds) / forward:.2f}"]
            elif timed:  # a layer that the model reads without calling it
                cells += ["-", "-"]
            rows.append(cells)
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
            )
            for r in rows
        ]
        total = (
            f"{self.entries:,} entries in all ({self.other_entries:,} outside the symmetries), "
            f"{self.plain_entries:,} in the plain model: {self.entries / self.plain_entries:.2f} x"
        )
        return "\n".join([*(line.rstrip() for line in lines), total])


@checked
def cost(model: nn.Module, example: Tensor | None = None) -> ModelCost:
    """Count the entries of U and v, bytes and multiply-adds of every layer.

    Args:
        model: A network, reparameterized or plain.
        example: A batch of inputs. The multiply-adds of the layers' forward pass on it are then counted too; W is
            built once for a whole batch.

    Returns:
        A ``ModelCost``; ``print`` shows it as a table.
    """
    found = symmetries(model)
    if not found:
        raise MetasymError(
            f"expected a reparameterized model, found no symmetry in {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    plain = bake(copy.deepcopy(model)).eval()
    forward = {} if example is None else _forward_multiply_adds(plain, example)
    filters = dict(symmetric_lists(model))
    seen: set[int] = set()
    rows = []
    for name, symmetry in found.items():
        if id(filters[name].original) in seen:  # tied layers share one filter and one symmetry
            continue
        seen.add(id(filters[name].original))
        cost = symmetry.cost()
        if id(symmetry) in seen:  # one U for several filters is stored once
            cost = dataclasses.replace(cost, symmetry_entries=0)
        seen.add(id(symmetry))
        shapes = tuple(symmetry.weight_shape), tuple(symmetry.filter_shape)
        rows.append(LayerCost(name, *shapes, cost, forward.get(name)))
    entries = sum(p.numel() for p in plain.parameters())
    return ModelCost(tuple(rows), entries - sum(row.cost.plain_entries for row in rows))


def _forward_multiply_adds(plain: nn.Module, example: Tensor) -> dict[str, int]:
    """Multiply-adds of each Linear and ConvNd of the baked model: entries of the output times fan-in."""
    counts: dict[str, int] = {}

    def count(name: str, layer: nn.Module, output: Tensor) -> None:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        counts[name] = counts.get(name, 0) + output.numel() * weight[0].numel()

    for name, layer in plain.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
            layer.register_forward_hook(lambda m, _, y, name=name: count(name, m, y))
    with torch.no_grad():
        plain(example)
    return counts
