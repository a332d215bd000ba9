"""Copies of recurrent layers whose weights symmetries make.

torch keeps a list of a recurrent layer's weights beside them. With a symmetry it holds what was made last, with its
graph, which torch does not copy; the list is made anew in the copy.
"""

from __future__ import annotations

import copy

from torch import nn

_LISTS = ("_flat_weights", "_flat_weight_refs")


def make_copyable(layer: nn.RNNBase) -> None:
    """Teach the class that ``parametrize`` has made for ``layer`` how it is copied."""
    type(layer).__deepcopy__ = _copied  # type: ignore[attr-defined]


def _copied(layer: nn.RNNBase, memo: dict[int, object]) -> nn.RNNBase:
    replica = layer.__new__(type(layer))
    memo[id(layer)] = replica
    own = {key: value for key, value in vars(layer).items() if key not in _LISTS}
    replica.__dict__ = copy.deepcopy(own, memo)
    replica._init_flat_weights()
    return replica
