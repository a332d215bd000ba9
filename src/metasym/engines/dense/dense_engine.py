"""The closed form of the meta-gradient of one dense reparameterized linear layer, as an engine."""

from __future__ import annotations

import functools
import math
from typing import ClassVar

import torch
from torch import nn

from metasym.engines.closed_engine import ClosedEngine, by_outer_names, refuses_step, refuses_types
from metasym.engines.dense.closed_form import closed_gradient, closed_loss
from metasym.engines.dense.contraction import DenseLayer
from metasym.engines.dense.joint import U_NAME, V_NAME
from metasym.engines.dense.layer import Layer, find_layer, flat_rows
from metasym.engines.description import Adapting, Description, Setting
from metasym.engines.engine import Ways
from metasym.engines.plan import (
    MS_A_CALL,
    MS_A_MAPPED_CALL,
    MS_A_MULTIPLY_ADD,
    MS_AN_ENTRY,
    Plan,
    Sizes,
    choose,
)
from metasym.engines.reference import adapting
from metasym.types import Batch, Episode, OuterLoss, Params


class DenseEngine(ClosedEngine):
    """Products of matrices for all tasks at once."""

    serves: ClassVar[tuple[type[nn.Module], ...]] = (nn.Linear,)

    def refuses(self, description: Description, setting: Setting) -> str | None:
        """Anything but the squared loss of one dense layer, adapted by gradient steps, in one plain type."""
        why = refuses_step(description, setting)
        if why is not None:
            return why
        d = adapting(description)
        layer = find_layer(d.model, list(d.inner))
        if layer is None:
            return "not one dense linear layer whose filter alone adapts"
        if len(d.inner) > 1 and d.rates.mode == "parameter":
            return "a step size for each entry of U"
        why = refuses_types(setting, layer.U.dtype)
        if why is not None:
            return why
        sizes = setting.sizes
        if sizes.inputs[-1:] != (layer.inputs,) or sizes.outputs != (*sizes.inputs[:-1], layer.outputs):
            return "data that do not fit the layer"
        return None

    def decisions(self, description: Description) -> frozenset[str]:
        """What the query is contracted with first."""
        return frozenset(["contract"])

    def milliseconds(self, description: Description, setting: Setting) -> dict[str, float]:
        """See :func:`linear_costs`."""
        d = adapting(description)
        by_query, mapped, rest = self._costs(d, setting)
        contract = choose("contract", by_query, d.forced)
        return {"mapped": mapped, "closed": by_query[contract.way] + rest}

    def choices(self, description: Description, setting: Setting) -> Plan:
        """Whichever of the two takes fewer products with U."""
        d = adapting(description)
        return (choose("contract", self._costs(d, setting)[0], d.forced),)

    def kernels(self, ways: Ways) -> tuple[str, ...]:
        """The kernel of the inner steps, where the inputs are contracted first."""
        return ("filter_steps",) if ways["contract"] == "input" else ()

    def losses(self, description: Description, ways: Ways, episodes: Episode) -> OuterLoss:
        """Differentiable once."""
        d = adapting(description)
        layer, data = _bind(d, episodes)
        return closed_loss(layer, *data, first_order=d.first_order, query_first=ways["contract"])

    def gradient(
        self, description: Description, ways: Ways, episodes: Episode, total_tasks: int
    ) -> tuple[OuterLoss, Params]:
        """Without autograd."""
        d = adapting(description)
        with torch.no_grad():
            layer, data = _bind(d, episodes)
        losses, by = closed_gradient(
            layer,
            *data,
            first_order=d.first_order,
            query_first=ways["contract"],
            total_tasks=total_tasks,
        )
        # The model is the layer. Its parameters are not listed: walking through its modules takes longer than this.
        named = (("bias", layer.bias, by.bias), (V_NAME, layer.v, by.v), (U_NAME, layer.U, by.U))
        by_model = {name: g for name, p, g in named if p is not None and g is not None and p.requires_grad}
        rates = {V_NAME: by.rates_v, U_NAME: by.rates_U}
        by_rates = {name: g for name, g in rates.items() if g is not None}
        return losses, by_outer_names(d, by_model, d.rates.pull_back(by_rates))

    def _costs(self, d: Adapting, setting: Setting) -> tuple[dict[str, float], float, float]:
        layer = find_layer(d.model, list(d.inner))
        assert layer is not None
        shape = (layer.outputs, layer.inputs, layer.U.shape[1])
        return linear_costs(setting.sizes, shape, d.steps, len(d.inner) > 1)


def _bind(d: Adapting, episodes: Episode) -> tuple[Layer, tuple[Batch, Batch]]:
    """The layer of a step with its step sizes, and the data as rows."""
    layer: DenseLayer | None = find_layer(d.model, list(d.inner))
    assert layer is not None
    rates = {name: d.rates.stacked(name, d.steps) for name in d.inner}
    v = rates.pop(layer.name)
    U = next(iter(rates.values()), None)
    return Layer(layer.U, layer.v, layer.bias, U, v), flat_rows(episodes, layer)


@functools.lru_cache(maxsize=64)
def linear_costs(
    sizes: Sizes, shape: tuple[int, int, int], steps: int, joint: bool
) -> tuple[dict[str, float], float, float]:
    """Milliseconds: of the query, by what is contracted first; of a mapped step; of the rest of a closed step.

    ``shape``: outputs, inputs and k.
    """
    outputs, inputs, k = shape
    product = sizes.tasks * outputs * inputs * k * MS_A_MULTIPLY_ADD
    support, query = (count * math.prod(sizes.inputs[:-1]) for count in (sizes.support, sizes.query))
    by_query = {"filter": 3 * product, "input": 2 * query * product}
    passes = (4 * steps + 1) * sizes.tasks * support * outputs * k * MS_AN_ENTRY
    calls = 60 + steps * (60 if joint else 10)
    rest = 2 * support * product + passes + calls * MS_A_CALL
    mapped = min(by_query.values()) + (30 + 25 * steps) * MS_A_MAPPED_CALL
    # An inner step that is mapped and builds W costs about ten products, forwards and backwards. Contracted first,
    # it costs five times the passes of the closed form.
    mapped += 2 * support * product + 5 * passes if 2 * support < 3 * steps else 10 * steps * product
    return by_query, mapped, rest
