"""What ``torch.nn.utils.parametrize`` calls its parts: the only module that spells these names.

A layer whose weight is reparameterized holds a list of parametrizations for it. The filter v is the list's
``original``, and the symmetry, with U, its first entry. In a ``state_dict`` both have long names; whoever has to
find or make one asks here.
"""

from __future__ import annotations

from torch import nn
from torch.nn.utils import parametrize

_LISTS = "parametrizations"
_ORIGINAL = "original"

FILTER = f"{_LISTS}.weight.{_ORIGINAL}"
"""The name of the filter v in a layer that is the whole model."""
SYMMETRY = f"{_LISTS}.weight.0"
"""The name of the symmetry in a layer that is the whole model."""
DENSE_U = f"{SYMMETRY}.U"
"""The name of a dense symmetry's U in a layer that is the whole model."""
JOINT = "symmetry"
"""What a symmetry of weight and bias together calls the symmetry inside it."""


def lists_of(module: nn.Module) -> nn.ModuleDict | None:
    """What makes each tensor of this very module, by the tensor's name; None for a module that is plain."""
    if not parametrize.is_parametrized(module):
        return None
    lists = getattr(module, _LISTS)
    assert isinstance(lists, nn.ModuleDict)
    return lists


def list_of(module: nn.Module, name: str = "weight") -> parametrize.ParametrizationList:
    """What makes the tensor ``name`` of this very module."""
    lists = lists_of(module)
    assert lists is not None
    plist = lists[name]
    assert isinstance(plist, parametrize.ParametrizationList)
    return plist


def drop_lists(module: nn.Module) -> None:
    """Take the module's (empty) table of lists away; torch then counts it as plain."""
    delattr(module, _LISTS)


def plain_type(module: nn.Module) -> type:
    """The class of ``module`` before anything in it was parametrized."""
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


def is_inside(module_name: str) -> bool:
    """Whether a module of this name is part of a parametrization, not a layer of the network."""
    return _LISTS in module_name.split(".")


def filter_name(layer: str = "", tensor: str = "weight") -> str:
    """The name, in the model, of the filter that makes ``tensor`` of ``layer``."""
    return f"{_prefix(layer)}{_LISTS}.{tensor}.{_ORIGINAL}"


def symmetry_name(layer: str = "", tensor: str = "weight") -> str:
    """The name, in the model, of the symmetry that makes ``tensor`` of ``layer``."""
    return f"{_prefix(layer)}{_LISTS}.{tensor}.0"


def is_filter(name: str) -> bool:
    """Whether a parameter of this name is a filter, of any tensor of any layer."""
    return name.split(".")[-3::2] == [_LISTS, _ORIGINAL]


def layer_of_filter(name: str) -> str | None:
    """The layer whose weight the filter ``name`` makes (``""``: the model itself); None for other names."""
    if name == FILTER:
        return ""
    return name.removesuffix(f".{FILTER}") if name.endswith(f".{FILTER}") else None


def short_name(name: str) -> str:
    """What people would call a parameter: v or U of its layer; other names as they are."""
    for ending, short in ((FILTER, "v"), (DENSE_U, "U"), (f"{SYMMETRY}.{JOINT}.U", "U")):
        head, found, tail = name.partition(ending)
        if found:
            layer = head.rstrip(".")
            factor = f"{short}{tail}" if tail.isdigit() else short
            return f"{factor} of {layer}" if layer else factor
    return name


def _prefix(layer: str) -> str:
    return f"{layer}." if layer else ""
