"""The layers of a model in the order in which they act, where they act in a row."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from torch import Tensor, fx, nn

from metasym.nn import TaskBatchNorm2d
from metasym.symmetry.parametrized import plain_type

Part = tuple[str, nn.Module | Callable[[Tensor], Tensor]]
"""A layer's name in the model and the layer; a function has the name of where it is called."""


def layers_in_order(name: str, module: nn.Module) -> list[Part] | None:
    """The layers of ``module`` in the order in which they act; None where they do not act in a row."""
    if hooked(module):
        return None
    base = plain_type(module)
    if base in (nn.Conv2d, nn.Linear, nn.BatchNorm2d, TaskBatchNorm2d) or not list(module.children()):
        return [(name, module)]
    prefix = f"{name}." if name else ""
    if base is nn.Sequential:
        found = [
            layers_in_order(prefix + child, layer)
            for child, layer in module._modules.items()
            if layer is not None
        ]
    else:
        calls = _calls(module)
        if calls is None:
            return [(name, module)] if name else None
        found = [
            layers_in_order(prefix + call, module.get_submodule(call))
            if isinstance(call, str)
            else [(name, call)]
            for call in calls
        ]
    if any(part is None for part in found):
        return None
    return [part for parts in found if parts is not None for part in parts]


class _Shallow(fx.Tracer):
    """Traces a module's own ``forward`` only."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _calls(module: nn.Module) -> list[str | Callable[[Tensor], Tensor]] | None:
    """What ``forward`` calls one after the other, children by name; None where it is not that simple."""
    try:
        graph = _Shallow().trace(module)
    except Exception:  # whatever a user's forward does to a tracer's stand-in for a tensor
        return None
    nodes = list(graph.nodes)
    if len(nodes) < 3 or nodes[0].op != "placeholder" or nodes[-1].op != "output":
        return None
    found: list[str | Callable[[Tensor], Tensor]] = []
    for before, node in itertools.pairwise(nodes):
        if (
            not node.args
            or node.args[0] is not before
            or node.all_input_nodes != [before]
            or len(before.users) != 1
        ):
            return None
        if node.op == "output":
            return found
        if node.op == "call_module":
            found.append(str(node.target))
        elif node.op in ("call_method", "call_function"):
            found.append(_bound(node))
        else:
            return None
    return None


def _bound(node: fx.Node) -> Callable[[Tensor], Tensor]:
    """A call with everything but its first argument fixed."""
    rest, named, target = node.args[1:], dict(node.kwargs), node.target
    if isinstance(target, str):
        return lambda x: getattr(x, target)(*rest, **named)
    return lambda x: target(x, *rest, **named)


def hooked(module: nn.Module) -> bool:
    """Whether hooks see or change what passes through ``module``."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
