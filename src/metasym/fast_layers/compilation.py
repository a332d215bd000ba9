"""What becomes of each layer of a model that has a structure: the cheapest equal computation, planned and built."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.fast_layers.adapted_basis import find_adapted
from metasym.fast_layers.blocks import find_blocks, find_sparse
from metasym.fast_layers.circular import find_circular
from metasym.fast_layers.flips import flipped, unsigned
from metasym.fast_layers.given import by_layer, called, generators_of, structure
from metasym.fast_layers.layer_plan import EXACT, LayerPlan
from metasym.fast_layers.pricing import MARGIN, Candidate, dense_work
from metasym.fast_layers.replaceable import hindrances, linear_layers, replaced, share_parameters, weight_id
from metasym.fast_layers.sharing import Sharing
from metasym.fast_layers.sliding import find_sliding
from metasym.fast_layers.sums import find_sums
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.layers import inspect
from metasym.symmetry.joint_bias import JointWeight
from metasym.symmetry.parametrized import weight_site
from metasym.symmetry.reparam import bake, symmetric_lists, symmetries
from metasym.types import MetasymError, MetasymWarning
from metasym.verdicts.layer_words import shortest_reason
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.status_thresholds import NEARLY
from metasym.verdicts.symmetry_report import SymmetryReport

CHANGED = 2.0
"""A U that is this many times as far from the reported pattern as the report says was changed since."""
_BATCHES = tuple(2**k for k in range(1, 13))
"""Sizes of batches; the first one that pays is reported."""


@dataclass(frozen=True, eq=False)
class StructurePlan:
    """What :func:`metasym.structured` does to each linear layer of a model; ``str`` shows it."""

    layers: tuple[LayerPlan, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.layers))

    def apply(self, model: nn.Module, *, project: bool = False) -> nn.Module:
        """A compiled copy of ``model``: one with the same layers, each weight with the pattern that was planned for.

        ``project`` averages weights over the classes that they have only nearly; otherwise they are refused.
        """
        plain = copy.deepcopy(model)
        plain = bake(plain) if symmetries(plain) else plain
        linears = linear_layers(plain)
        built: dict[tuple[int, int], nn.Module] = {}
        for layer in self.layers:
            if layer.name not in linears or tuple(linears[layer.name].weight.shape) != layer.shape:
                found = {name: tuple(m.weight.shape) for name, m in linears.items()}
                raise MetasymError(
                    f"expected a linear layer {layer.name!r} of shape {layer.shape}, found {found}",
                    about=f"layer {layer.name!r}",
                    found=found,
                )
            if layer.sharing is None:
                continue
            module = linears[layer.name]
            W = module.weight.detach()
            now = replace(layer, error=layer.sharing.error(W))
            exact = now.error <= EXACT.get(W.dtype, 1e-2)  # of weights that are no numbers the error is none
            if not exact and not project:
                kind = "given" if now.given else "found"
                raise MetasymError(
                    f"{called(layer.name)}: expected a weight with the structure that was {kind}, found another: "
                    f"{now.doubt}",
                    about=f"{called(layer.name)}: weight",
                    found=now.error,
                )
            if (
                now.given and now.error > NEARLY
            ):  # wanted for a layer that is yet to be trained, else a mistake
                warnings.warn(
                    f"averaging {called(layer.name)} changed its weight by {now.error:.0%}: it is another layer now",
                    MetasymWarning,
                    stacklevel=3,
                )
            filter = layer.sharing.filter_of(W)
            bias = None if module.bias is None else module.bias.detach()
            if layer.chosen is None:
                if project:
                    with torch.no_grad():
                        module.weight.copy_(layer.sharing.weight(filter))
                continue
            new = layer.chosen.build(filter, bias)
            trainable = module.weight.requires_grad
            for parameter in new.parameters():
                parameter.requires_grad_(trainable)
            if bias is not None and isinstance(new.bias, nn.Parameter):
                new.bias.requires_grad_(bool(module.bias.requires_grad))
            new = new.to(W.device).train(module.training)
            key = weight_id(module), id(layer.chosen)
            share_parameters(new, built.setdefault(key, new))  # weights that were tied stay tied
            plain = replaced(plain, module, new)
        return plain


@checked
def structure_plan(
    module: nn.Module,
    structure: Any = None,
    *,
    project: bool = False,
    batch: int = 32,
    training: bool = True,
    onnx: bool = False,
    always: bool = False,
) -> StructurePlan:
    """Return what :func:`metasym.structured` would do to each linear layer, and why.

    Args:
        module: A network.
        structure: As in :func:`metasym.structured`.
        project: As there.
        batch: As there.
        training: As there.
        onnx: As there.
        always: As there.

    Returns:
        A ``StructurePlan``; ``print`` shows it, ``apply`` carries it out.
    """
    if not isinstance(module, nn.Module):
        raise MetasymError(
            f"expected an nn.Module to compile, found {type(module).__name__}",
            about="module",
            found=type(module).__name__,
        )
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise MetasymError(
            f"expected batch to be a whole number >= 1, found {batch!r}", about="batch", found=batch
        )
    known: dict[str, tuple[Sharing, list[SignedPermutation]]] = {}
    errors: dict[str, float] = {}
    reasons: dict[str, str] = {}
    linears, stays = linear_layers(module), hindrances(module)
    if structure is None or isinstance(structure, SymmetryReport):
        if not symmetries(module):
            raise MetasymError(
                "expected a reparameterized model, or the structure of its layers, found a plain "
                f"{type(module).__name__} and none given",
                about="structure",
                found=type(module).__name__,
            )
        report = inspect(module) if structure is None else structure
        _check_report(module, report)
        for layer in report:
            found = _reported(module, layer)
            if isinstance(found, str):
                reasons[layer.name] = found
            else:
                sharing, pairs, errors[layer.name] = found
                known[layer.name] = sharing, pairs
    else:
        for name, given in by_layer(structure, list(linears)).items():
            shape = linears[name].weight.shape
            known[name] = _structure(given, (int(shape[0]), int(shape[1])), name)
            errors[name] = known[name][0].error(linears[name].weight.detach())
    _spread(known, errors, linears)
    for name in stays.keys() & known.keys():
        del known[name]
    reasons.update(stays)
    if not known:
        why = "; ".join(f"{name or 'the layer'}: {reason}" for name, reason in reasons.items())
        raise MetasymError(
            f"expected a layer with a structure to compile, found none ({why or 'no linear layers'})",
            about="structure",
            found=list(reasons),
        )
    plans = []
    for name, linear in linears.items():
        m, n = (int(s) for s in linear.weight.shape)
        size = linear.weight.element_size()
        if name in known:
            sharing, pairs = known[name]
            plan = plan_layer(
                name,
                sharing,
                pairs,
                batch=batch,
                element_size=size,
                training=training,
                onnx=onnx,
                always=always,
            )
            is_given = not (structure is None or isinstance(structure, SymmetryReport))
            plans.append(replace(plan, error=0.0 if project else errors[name], given=is_given))
        else:
            reason = reasons.get(name, "no structure was found or given")
            plans.append(LayerPlan(name, (m, n), None, None, (), reason, batch, size))
    return StructurePlan(tuple(plans))


_structure = structure


def _spread(
    known: dict[str, tuple[Sharing, list[SignedPermutation]]],
    errors: dict[str, float],
    linears: Mapping[str, nn.Linear],
) -> None:
    """What is known of a layer holds for every other one with the same weight."""
    first: dict[int, str] = {}
    for name in known:
        twin = first.setdefault(weight_id(linears[name]), name)
        if not np.array_equal(known[twin][0].classes, known[name][0].classes):
            raise MetasymError(
                f"expected one structure for {twin!r} and {name!r}, which have one weight, found two",
                about="structure",
                found=(twin, name),
            )
    for name, layer in linears.items():
        other = first.get(weight_id(layer))
        if other is not None:
            known[name], errors[name] = known[other], errors[other]


def plan_layer(
    name: str,
    sharing: Sharing,
    pairs: Sequence[SignedPermutation],
    *,
    batch: int,
    element_size: int,
    training: bool = True,
    onnx: bool = False,
    always: bool = False,
) -> LayerPlan:
    """The cheapest way to compute a layer with this pattern."""
    every = ways(sharing, pairs)
    found = [way for way in every if not (onnx and way.transforms)]
    shape = sharing.shape
    dense = dense_work(*shape)

    def parts(examples: int) -> dict[int, float]:
        return {id(c): c.work.part_of(dense, examples, training=training) for c in found}

    part = parts(batch)
    # What pays comes first, and of that what is fastest forward.
    ranked = sorted(found, key=lambda c: (max(MARGIN, part[id(c)]), c.work.microseconds(batch)))
    if not ranked:
        why = f"{sharing.count} classes of weights without a structure that helps"
        why = why if sharing.count else "every weight is zero"
        if every:
            why = f"{every[0].words}, is left out of .onnx files"
        return LayerPlan(name, shape, sharing, None, (), why, batch, element_size)
    if part[id(ranked[0])] > MARGIN and not always:
        little = part[id(ranked[0])] <= 1
        why = f"{ranked[0].words} would {'save too little' if little else 'not pay'} at this size"
        enough = (more for more in _BATCHES if more > batch and min(parts(more).values()) <= MARGIN)
        return LayerPlan(
            name, shape, sharing, None, tuple(ranked), why, batch, element_size, pays_from=next(enough, None)
        )
    return LayerPlan(name, shape, sharing, ranked[0], tuple(ranked[1:]), "estimate", batch, element_size)


def ways(sharing: Sharing, pairs: Sequence[SignedPermutation] = ()) -> list[Candidate]:
    """Every way that is known to compute a layer with this pattern; searched once and remembered with it."""
    key = tuple(pairs)
    if not sharing.count:  # nothing but zeros
        return []
    if key not in sharing.ways:
        found = [*find_blocks(sharing), *find_sparse(sharing)]
        found += find_circular(sharing, pairs) if sharing.signed else []
        signs = unsigned(sharing) if sharing.signed else None
        if signs is not None:
            plain = Sharing(sharing.absolute)
            found += [flipped(one, signs, sharing.shape) for one in _plain_ways(plain, pairs)]
        elif not sharing.signed:
            found += _plain_ways(sharing, pairs)
        sharing.ways[key] = found
    return sharing.ways[key]


def plan_of_report(layer: LayerReport, *, batch: int = 32, element_size: int = 4) -> LayerPlan | None:
    """What a reported layer would become when exported, from the report alone; None without a clear pattern."""
    if layer.pattern is None or not layer.pattern.clear or len(layer.weight_shape) != 2:
        return None
    sharing = Sharing.of(layer.pattern.classes)
    return plan_layer(
        layer.name,
        sharing,
        generators_of(layer.group),
        batch=batch,
        element_size=element_size,
        training=False,
    )


def _plain_ways(sharing: Sharing, pairs: Sequence[SignedPermutation]) -> list[Candidate]:
    """Ways that know no signs."""
    circular = find_circular(sharing, pairs)
    sliding = [] if circular else find_sliding(sharing)
    return [*circular, *sliding, *find_sums(sharing), *find_adapted(sharing, pairs)]


def _check_report(module: nn.Module, report: SymmetryReport) -> None:
    """Refuse a report of another model."""
    found = {name: tuple(s.weight_shape) for name, s in symmetries(module).items()}
    reported = {layer.name: tuple(layer.weight_shape) for layer in report}
    if found != reported:
        raise MetasymError(
            f"expected a report on the layers {_shapes(found)}, found one on {_shapes(reported)}",
            about="report",
            found=reported,
        )


def _shapes(layers: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name!r} {shape}" for name, shape in layers.items())


def _reported(module: nn.Module, layer: LayerReport) -> tuple[Sharing, list[SignedPermutation], float] | str:
    """The pattern that a report found in a layer and how far U is from it; or why there is none."""
    linear = module.get_submodule(weight_site(layer.name)[0])
    if not isinstance(linear, nn.Linear):
        return "not a fully connected layer"
    if layer.pattern is None or not layer.pattern.clear:
        return shortest_reason(layer)
    plist = dict(symmetric_lists(module))[layer.name]
    joint = isinstance(plist[0], JointWeight)
    whole = Sharing.of(layer.pattern.classes)
    U = symmetries(module)[layer.name].matrix().detach()
    residual = _residual(whole, U)
    allowed = EXACT.get(U.dtype, 1e-2)
    if (
        residual > max(CHANGED * layer.pattern.residual, allowed)
        and residual > layer.pattern.residual + allowed
    ):
        raise MetasymError(
            f"{called(layer.name)}: expected the U that was inspected (residual {layer.pattern.residual:.2g}), "
            f"found one with residual {residual:.2g}: it was changed since, or the report is another model's; "
            "inspect it again",
            about=f"{called(layer.name)}: U",
            found=residual,
        )
    classes = whole.classes[:, :-1] if joint else whole.classes
    return Sharing.of(classes), [] if joint else generators_of(layer.group), residual


def _residual(sharing: Sharing, U: Tensor) -> float:
    """The part of U that the pattern does not explain."""
    labels = torch.from_numpy(sharing.absolute.ravel()).to(U.device)
    signs = torch.from_numpy(sharing.classes.ravel()).sign().to(U)
    turned = U * signs[:, None]
    sums = torch.zeros(sharing.count + 1, U.shape[1], dtype=torch.float64, device=U.device)
    sums.index_add_(0, labels, turned.double())
    sizes = torch.from_numpy(sharing.sizes).to(U.device).clamp_min(1)
    means = (sums / sizes[:, None]).to(U)
    means[0] = 0
    norm = float(torch.linalg.vector_norm(U))
    gap = means[labels]
    gap *= signs[:, None]
    gap -= U
    return float(torch.linalg.vector_norm(gap)) / norm if norm else 0.0
