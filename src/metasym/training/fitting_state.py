"""Whether the state in a checkpoint fits what it is to be put into: optimizers and schedulers check little."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from metasym.errors import in_one_line
from metasym.storage.serialization import CheckpointError


@contextlib.contextmanager
def fitting(name: str, part: str) -> Iterator[None]:
    """Turns any error while ``part`` of the checkpoint ``name`` is put to use into an error of one line."""
    try:
        yield
    except CheckpointError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        RuntimeError,
        OverflowError,
    ) as error:
        said = in_one_line(error)
        raise CheckpointError(
            f"{name}: expected {part} as a run wrote it, found {type(error).__name__}: {said}",
            about=f"{name}: {part}",
            found=type(error).__name__,
        ) from None


def check_optimizer(optimizer: Optimizer, found: dict[str, Any], name: str) -> None:
    """Refuse a state whose settings or tensors are not like those of ``optimizer``.

    Fused kernels walk through memory without checking shapes.
    """
    own = optimizer.state_dict()
    check_alike(own["param_groups"], found.get("param_groups"), f"{name}.param_groups")
    state = found.get("state")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if not isinstance(state, dict) or not all(isinstance(values, dict) for values in state.values()):
        raise CheckpointError(
            f"{name}.state: expected the state of each parameter, found another value",
            about=f"{name}.state",
            found="another value",
        )
    for index, values in state.items():
        if not isinstance(index, int) or not 0 <= index < len(parameters):
            raise CheckpointError(
                f"{name}.state: expected parameters 0 to {len(parameters) - 1}, found {index!r:.40}",
                about=f"{name}.state",
                found=index,
            )
        for key, value in values.items():
            shape, wanted = value.shape if isinstance(value, Tensor) else (), parameters[index].shape
            # For other optimizers the shapes are not known.
            if isinstance(optimizer, Adam | SGD) and shape not in ((), (1,), wanted):
                raise CheckpointError(
                    f"{name}.state.{index}.{key}: expected a tensor {list(wanted)}, found {list(shape)}",
                    about=f"{name}.state.{index}.{key}",
                    found=tuple(shape),
                )


def check_alike(own: Any, found: Any, name: str) -> None:
    """Refuse a value that is built differently from ``own``: other keys, another length, another kind of value."""
    if isinstance(own, dict):
        if not isinstance(found, dict) or own.keys() != found.keys():
            wanted = ", ".join(map(str, own))
            raise CheckpointError(
                f"{name}: expected the fields {wanted:.120}, found {_fields(found)}",
                about=name,
                found=_fields(found),
            )
        for key, value in own.items():
            check_alike(value, found[key], f"{name}.{key}")
    elif isinstance(own, list | tuple):
        if not isinstance(found, list | tuple) or len(own) != len(found):
            raise CheckpointError(
                f"{name}: expected a list of {len(own)}, found {_fields(found)}",
                about=name,
                found=_fields(found),
            )
        for index, value in enumerate(own):
            check_alike(value, found[index], f"{name}[{index}]")
    elif _kind(own) is not None and _kind(found) not in (_kind(own), None):
        raise CheckpointError(
            f"{name}: expected {_kind(own)}, found {_kind(found)}", about=name, found=_kind(found)
        )
    elif _kind(own) in ("a number", "text") and found is None:
        raise CheckpointError(f"{name}: expected {_kind(own)}, found none", about=name)


def _kind(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float) or (isinstance(value, Tensor) and value.numel() == 1):
        return "a number"
    return "text" if isinstance(value, str) else type(value).__name__


def _fields(found: Any) -> str:
    if isinstance(found, dict):
        return f"{', '.join(map(str, found)):.120}" if found else "none"
    return f"a list of {len(found)}" if isinstance(found, list | tuple) else type(found).__name__
