"""Which layers of a model are meant: by name pattern, type, callable, or all that qualify; and what fits them."""

from __future__ import annotations

import difflib
import fnmatch
import warnings
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils import parametrize

from metasym.symmetry.matrices import Symmetry
from metasym.symmetry.parametrized import is_inside, list_of, weight_tensors
from metasym.types import MetasymError, MetasymWarning

Select = str | type[nn.Module] | Sequence[str | type[nn.Module]] | Callable[[str, nn.Module], bool] | None

SUPPORTED: tuple[type[nn.Module], ...] = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.RNNBase,
    nn.RNNCellBase,
    nn.MultiheadAttention,
)
KNOWN = "Linear, ConvNd, recurrent or attention"
_NO_MAPS = (nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.EmbeddingBag)
"""Layers whose weights may have two dimensions but are not linear maps that a symmetry could be put on."""


def select_layers(model: nn.Module, select: Select) -> list[tuple[str, nn.Module]]:
    """The named layers of ``model`` that ``select`` means; each has maps of a known kind, or it is an error.

    ``None`` means all of them. A pattern (as in a shell: ``"features.*"``) or a type must match something,
    and whatever it matches must be supported if it holds a matrix of weights: nothing that was asked
    for is passed over in silence. Layers without such weights (norms, activations, containers) are not
    what a pattern like ``"*"`` asks for.
    """
    if not isinstance(model, nn.Module):
        raise MetasymError(
            f"expected model to be an nn.Module, found {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    # A module that is used twice can be meant by either of its names.
    named = dict(model.named_modules(remove_duplicate=False))
    if select is None:
        chosen = [(n, m) for n, m in named.items() if isinstance(m, SUPPORTED)]
        if not chosen:
            raise MetasymError(
                f"expected a model with {KNOWN} layers, found none in {type(model).__name__}",
                about="model",
                found=type(model).__name__,
            )
    elif isinstance(select, str | type):
        chosen = _matching(named, select)
    elif callable(select):
        chosen = [(n, m) for n, m in named.items() if select(n, m)]
        if not chosen:
            raise MetasymError(
                f"expected the selection to pick at least one of {len(named)} modules, found none",
                about="select",
            )
    elif isinstance(select, list | tuple):
        picked = {name: module for item in select for name, module in _matching(named, item)}
        chosen = [(n, m) for n, m in named.items() if n in picked]
        if not chosen:
            raise MetasymError(
                "expected at least one pattern or type to select by, found an empty list",
                about="select",
                found=[],
            )
    else:
        raise MetasymError(
            f"expected select to be a pattern, a type, a list of those or a callable, found {select!r}",
            about="select",
            found=select,
        )
    once = {id(module): (name, module) for name, module in reversed(chosen)}
    distinct = [(n, m) for n, m in chosen if once[id(m)][0] == n]
    for name, module in distinct:
        check_supported(name, module)
    return distinct


def say_what_stays(model: nn.Module, chosen: set[int]) -> None:
    """Warn about weights that no symmetry can be put on: whoever asks for the whole model should know.

    ``chosen`` are the ids of the weights that get one, which a layer of another kind may share.
    """
    left = []
    for name, module in model.named_modules():
        if isinstance(module, (*SUPPORTED, *_NO_MAPS)) or is_inside(name):
            continue
        own = [n for n, p in module.named_parameters(recurse=False) if p.ndim >= 2 and id(p) not in chosen]
        if own:
            left.append(
                f"{name or 'the model'} ({type(module).__name__}: {', '.join(own[:3])}{', ...' * (len(own) > 3)})"
            )
    if left:
        warnings.warn(
            f"reparameterize puts symmetries on {KNOWN} layers; these weights stay plain: "
            f"{'; '.join(left[:6])}{f'; and {len(left) - 6} more' if len(left) > 6 else ''}. Choose layers with "
            "select= to silence this warning",
            MetasymWarning,
            stacklevel=3,
        )


def _matching(named: dict[str, nn.Module], item: str | type[nn.Module]) -> list[tuple[str, nn.Module]]:
    if isinstance(item, str):
        hits = [(n, m) for n, m in named.items() if fnmatch.fnmatchcase(n, item)]
        exact = item in named
        described = f"a module whose name matches {item!r}"
    elif not isinstance(item, type):
        raise MetasymError(
            f"expected a name pattern or a type to select by, found {item!r}",
            about="item of select",
            found=item,
        )
    else:
        hits = [(n, m) for n, m in named.items() if isinstance(m, item)]
        exact = True
        described = f"a module of type {item.__name__}"
    if not hits:
        near = difflib.get_close_matches(item, [n for n in named if n]) if isinstance(item, str) else []
        hint = f"; nearest names: {', '.join(near)}" if near else ""
        raise MetasymError(
            f"expected {described}, found none among {len(named)} modules{hint}", about=f"select={item!r}"
        )
    if exact:
        return hits
    wanted = [(n, m) for n, m in hits if isinstance(m, SUPPORTED) or _has_matrix(m)]
    if not wanted:
        raise MetasymError(
            f"expected {described} and has weights, found only {_kinds(m for _, m in hits)}",
            about=f"select={item!r}",
            found=_kinds(m for _, m in hits),
        )
    return wanted


def check_supported(name: str, module: nn.Module) -> None:
    """Raise an error that says which module cannot be reparameterized, and why."""
    if not isinstance(module, SUPPORTED):
        raise MetasymError(
            f"expected a {KNOWN} layer, found module {name!r} ({type(module).__name__})",
            about=f"module {name!r}",
            found=type(module).__name__,
        )
    for tensor in weight_tensors(module):
        _check_tensor(name, module, tensor)


def _check_tensor(name: str, module: nn.Module, tensor: str) -> None:
    where, about = f"module {name!r} ({type(module).__name__})", f"module {name!r}: {tensor}"
    if parametrize.is_parametrized(module, tensor):
        by = type(list_of(module, tensor)[0]).__name__
        raise MetasymError(
            f"expected a plain {tensor} in {where}, found one that is already parametrized by {by}",
            about=about,
            found=by,
        )
    if isinstance(getattr(module, tensor), UninitializedParameter):
        raise MetasymError(
            f"expected an initialised {tensor}, found {where}: run one batch through the model first",
            about=about,
            found=type(getattr(module, tensor)).__name__,
        )
    if tensor not in module._parameters:
        raise MetasymError(
            f"expected the {tensor} of {where} to be a parameter of its own, found a tensor that another "
            "mechanism computes (the old-style weight_norm, spectral_norm or pruning?)",
            about=about,
        )
    weight = module._parameters[tensor]
    assert weight is not None
    if not weight.is_floating_point():
        raise MetasymError(
            f"expected a real floating-point {tensor} in {where}, found {weight.dtype}",
            about=about,
            found=weight.dtype,
        )
    if weight.is_meta:
        raise MetasymError(
            f"expected a {tensor} that holds numbers, found {where} on the meta device: load it first",
            about=about,
            found=weight.device.type,
        )
    if not bool(torch.isfinite(weight).all()):
        raise MetasymError(
            f"expected finite weights, found NaN or infinity in {where}", about=about, found="NaN or infinity"
        )


def has_joint_bias(module: nn.Module, tensor: str, bias: str) -> bool:
    """Whether the bias becomes part of the symmetry: recurrent layers and attention keep theirs as they are."""
    return bias == "joint" and tensor == "weight" and module.bias is not None


def joint_shape(module: nn.Module) -> torch.Size:
    """The shape of a layer's weight with its bias as one more column."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    return torch.Size([weight.shape[0], weight[0].numel() + 1])


def weight_sites(model: nn.Module) -> dict[int, list[tuple[nn.Module, str]]]:
    """Every place (module, parameter name) that holds each parameter, by the parameter's id."""
    found: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found.setdefault(id(parameter), []).append((module, name))
    return found


def check_fit(
    symmetry: Symmetry,
    name: str,
    module: nn.Module,
    tensor: str,
    bias: str,
    sites: dict[int, list[tuple[nn.Module, str]]],
) -> None:
    """Raise an error that says why a symmetry cannot be put on a tensor of a module."""
    if not isinstance(symmetry, Symmetry):
        raise MetasymError(
            f"module {name!r}: expected a Symmetry or None, found {type(symmetry).__name__}",
            about=f"module {name!r}",
            found=type(symmetry).__name__,
        )
    weight = getattr(module, tensor)
    assert isinstance(weight, Tensor)
    joint = has_joint_bias(module, tensor, bias)
    if joint and "bias" not in module._parameters:
        raise MetasymError(
            f"module {name!r}: expected a plain bias with bias='joint', found a parametrized one",
            about=f"module {name!r}: bias",
            found="parametrized",
        )
    for part in ("weight", "bias") if joint else ():
        places = len(sites[id(module._parameters[part])])
        if places > 1:
            raise MetasymError(
                f"module {name!r}: expected a {part} of its own with bias='joint', found one tied in {places} places",
                about=f"module {name!r}: {part}",
                found=places,
            )
    want = joint_shape(module) if joint else weight.shape
    if symmetry.weight_shape != want:
        raise MetasymError(
            f"module {name!r}: expected a symmetry for a weight of shape {tuple(want)}, "
            f"found one for {tuple(symmetry.weight_shape)}",
            about=f"module {name!r}",
            found=tuple(symmetry.weight_shape),
        )
    tensors = [*symmetry.parameters(), *symmetry.buffers()]
    if tensors and tensors[0].dtype != weight.dtype:
        raise MetasymError(
            f"module {name!r}: expected a symmetry of type {weight.dtype}, found {tensors[0].dtype}",
            about=f"module {name!r}",
            found=tensors[0].dtype,
        )


def _has_matrix(module: nn.Module) -> bool:
    return any(p.ndim >= 2 for p in module.parameters(recurse=False))


def _kinds(modules: Iterable[nn.Module]) -> str:
    return ", ".join(sorted({type(m).__name__ for m in modules}))
