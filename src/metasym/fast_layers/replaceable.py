"""Which layers of a model may be replaced, and which of them have one weight in common and have to keep it."""

from __future__ import annotations

from torch import nn

from metasym.symmetry.parametrized import is_inside, list_of, lists_of

_READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
"""Modules of torch that take the weights of the layers in them instead of calling the layers."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}


def hindrances(model: nn.Module) -> dict[str, str]:
    """Why some linear layers cannot be replaced by another computation, by name."""
    found: dict[str, str] = {}
    linears = linear_layers(model)
    inside = {
        id(part): type(m).__name__
        for m in model.modules()
        if isinstance(m, _READERS)
        for part in m.children()
    }
    for name, layer in linears.items():
        if type(layer).forward is not nn.Linear.forward:
            found[name] = f"a {type(layer).__name__} computes in its own way"
        elif any(getattr(layer, hooks) for hooks in _HOOKS):
            found[name] = "it has hooks"
        elif id(layer) in inside:
            found[name] = f"the {inside[id(layer)]} around it reads its weight"
    others: dict[int, str] = {}  # who else holds a weight
    for name, module in model.named_modules():
        if (name not in linears or name in found) and not is_inside(name):
            for held in _held(module):
                others.setdefault(held, name)
    for name, layer in linears.items():
        other = others.get(weight_id(layer))
        if name not in found and other is not None:
            found[name] = f"its weight is that of {other!r} too"
    return found


def weight_id(layer: nn.Module) -> int:
    """What layers with one weight have in common: the parameter, or the filter of a symmetry."""
    lists = lists_of(layer)
    if lists is not None and "weight" in lists:
        return id(list_of(layer).original)
    return id(layer._parameters.get("weight", layer))


def _held(module: nn.Module) -> list[int]:
    """The parameters of this very module, and the filters of its symmetries."""
    names = () if (lists := lists_of(module)) is None else tuple(lists)
    return [
        *(id(parameter) for parameter in module.parameters(recurse=False)),
        *(id(list_of(module, name).original) for name in names),
    ]


def share_parameters(new: nn.Module, old: nn.Module) -> None:
    """Give one compiled layer the filter of another that was built alike; each keeps its bias."""
    for name, parameter in list(old.named_parameters()):
        if name != "bias":
            owner, _, last = name.rpartition(".")
            setattr(new.get_submodule(owner), last, parameter)


def replaced(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """The model with another module in every place that holds the old one."""
    if model is old:
        return new
    for module in model.modules():
        for child, part in list(module._modules.items()):  # named_children() leaves out the second place
            if part is old:
                setattr(module, child, new)
    return model
