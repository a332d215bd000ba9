"""What ``torch.nn.utils.parametrize`` calls its parts: the only module that spells these names.

A layer whose weight is reparameterized holds a list of parametrizations for it. The filter v is the list's
``original``, and the symmetry, with U, its first entry. In a ``state_dict`` both have long names; whoever has to
find or make one asks here.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.nn.utils import parametrize

from metasym.types import Params

_LISTS = "parametrizations"
_ORIGINAL = "original"
_COPIES = ("_flat_weights", "_flat_weight_refs")
"""torch's list of a recurrent layer's weights. With a symmetry it holds what was made last, with its graph, and is
made anew in a copy."""

_MAP = re.compile(r"in_proj_weight|[qkv]_proj_weight|weight_(?:ih|hh|hr)(?:_l\d+)?(?:_reverse)?")
"""What torch calls the linear maps of recurrent layers and of attention."""

FILTER = f"{_LISTS}.weight.{_ORIGINAL}"
"""The name of the filter v in a layer that is the whole model."""
SYMMETRY = f"{_LISTS}.weight.0"
"""The name of the symmetry in a layer that is the whole model."""
DENSE_U = f"{SYMMETRY}.U"
"""The name of a dense symmetry's U in a layer that is the whole model."""
JOINT = "symmetry"
"""What a symmetry of weight and bias together calls the symmetry inside it."""


@dataclass(frozen=True)
class Split:
    """A model's parameters by their part in the reparameterization, each by qualified name."""

    U: Params = field(default_factory=dict)
    """Learned symmetry matrices (or their Kronecker factors)."""
    v: Params = field(default_factory=dict)
    """Filters."""
    other: Params = field(default_factory=dict)
    """Everything else: biases, norms, layers that were not reparameterized."""
    frozen: Params = field(default_factory=dict)
    """Frozen symmetry matrices: buffers, which nothing trains."""

    def __repr__(self) -> str:
        return f"Split({len(self.U)} of U, {len(self.v)} of v, {len(self.other)} other, {len(self.frozen)} frozen)"


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


def weight_tensors(module: nn.Module) -> tuple[str, ...]:
    """The tensors of this very module that are linear maps a symmetry can be put on; none of most modules.

    A recurrent layer has several; attention has one for queries, keys and values together, or one for each.
    """
    if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return ("weight",)
    if isinstance(module, nn.RNNBase | nn.RNNCellBase | nn.MultiheadAttention):
        own = [name for name, value in module._parameters.items() if value is not None]
        made = list(lists_of(module) or ())
        return tuple(sorted(name for name in (*own, *made) if _MAP.fullmatch(name)))
    return ()


def weight_name(layer: str, tensor: str = "weight") -> str:
    """What the weight ``tensor`` of ``layer`` is called: by its layer alone, if it is the layer's only one."""
    return layer if tensor == "weight" else f"{_prefix(layer)}{tensor}"


def weight_site(name: str) -> tuple[str, str]:
    """The layer and the tensor of the weight ``name``, as :func:`weight_name` put them together."""
    layer, _, last = name.rpartition(".")
    return (layer, last) if _MAP.fullmatch(last) else (name, "weight")


def has_bias(module: nn.Module) -> bool:
    """Whether a layer has a bias that it owns; recurrent layers only say that they have some."""
    bias = getattr(module, "bias", None)
    return bias is True or isinstance(bias, Tensor)


def filter_name(layer: str = "", tensor: str = "weight") -> str:
    """The name, in the model, of the filter that makes ``tensor`` of ``layer``, or the weight ``layer``."""
    layer, tensor = (layer, tensor) if tensor != "weight" else weight_site(layer)
    return f"{_prefix(layer)}{_LISTS}.{tensor}.{_ORIGINAL}"


def symmetry_name(layer: str = "", tensor: str = "weight") -> str:
    """The name, in the model, of the symmetry that makes ``tensor`` of ``layer``, or the weight ``layer``."""
    layer, tensor = (layer, tensor) if tensor != "weight" else weight_site(layer)
    return f"{_prefix(layer)}{_LISTS}.{tensor}.0"


def is_filter(name: str) -> bool:
    """Whether a parameter of this name is a filter, of any tensor of any layer."""
    return name.split(".")[-3::2] == [_LISTS, _ORIGINAL]


def layer_of_filter(name: str) -> str | None:
    """The weight that the filter ``name`` makes, by its layer (``""``: the model itself); None for other names."""
    found = re.fullmatch(rf"(?:(.*)\.)?{_LISTS}\.(\w+)\.{_ORIGINAL}", name)
    if found is None or (found[2] != "weight" and not _MAP.fullmatch(found[2])):
        return None
    return weight_name(found[1] or "", found[2])


def short_name(name: str) -> str:
    """What people would call a parameter: v or U of its layer; other names as they are."""
    found = re.fullmatch(rf"(?:(.*)\.)?{_LISTS}\.(\w+)\.({_ORIGINAL}|0\.(?:{JOINT}\.)?U(\d*))", name)
    if found is None:
        return name
    layer = weight_name(found[1] or "", found[2])
    short = "v" if found[3] == _ORIGINAL else f"U{found[4]}"
    return f"{short} of {layer}" if layer else short


def make_copyable(layer: nn.RNNBase) -> None:
    """Teach the class that ``parametrize`` has made for ``layer`` how it is copied."""
    type(layer).__deepcopy__ = _copied  # type: ignore[attr-defined]


def _copied(layer: nn.RNNBase, memo: dict[int, object]) -> nn.RNNBase:
    replica = layer.__new__(type(layer))
    memo[id(layer)] = replica
    own = {key: value for key, value in vars(layer).items() if key not in _COPIES}
    replica.__dict__ = copy.deepcopy(own, memo)
    replica._init_flat_weights()
    return replica


def _prefix(layer: str) -> str:
    return f"{layer}." if layer else ""
