"""Arguments compared with their annotations when a public function is called.

A wrong one is refused where it was given, by its name, and not by whatever first stumbles over it. Annotations are
the one place that says what is expected; NaN is no number that anything here is expected to be.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import math
import numbers
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from metasym.errors import MetasymError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_FEW = 1000
"""Entries of a sequence that are examined."""


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """``function``, whose arguments are refused in one line where they do not fit their annotations."""
    parameters = list(inspect.signature(function).parameters.values())
    named = {p.name: p for p in parameters if p.kind != p.VAR_KEYWORD}
    ordered = [p.name for p in named.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)]
    rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    known: dict[str, Any] = {}

    def look(name: str, value: Any) -> None:
        annotation = named[name].annotation
        if name not in known:
            known[name] = _resolved(annotation, getattr(function, "__globals__", {}))
        if value is not named[name].default:
            check_argument(
                function.__qualname__.removesuffix(".__init__"), name, value, annotation, known[name]
            )

    @functools.wraps(function)
    def call(*given: _P.args, **options: _P.kwargs) -> _R:
        for name, value in zip(ordered, given, strict=False):
            look(name, value)
        if rest is not None:
            for value in given[len(ordered) :]:
                look(rest, value)
        for name, value in options.items():
            if name in named:
                look(name, value)
        return function(*given, **options)

    return call


def check_fields(value: Any) -> None:
    """Refuse fields of a dataclass that do not fit their annotations; for its ``__post_init__``."""
    names = vars(sys.modules[type(value).__module__])
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        check_argument(type(value).__name__, field.name, given, field.type, _resolved(field.type, names))


def check_argument(where: str, name: str, value: Any, annotation: Any, hint: Any) -> None:
    """Refuse a value that does not fit ``hint``, which ``annotation`` says in words."""
    no_name = value == "" and "PathLike" in str(annotation) if isinstance(value, str) else False
    if no_name or not fits(value, hint):  # an empty name would be the current folder
        raise MetasymError(
            f"{where}: expected {name} to be {annotation}, found {_shown(value)}",
            about=name,
            found=value
            if value is None or isinstance(value, bool | int | float | str)
            else type(value).__name__,
        )


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; True where the annotation does not say what can be looked at."""
    if hint is Any:
        return True
    if isinstance(hint, TypeVar):
        return hint.__bound__ is None or fits(value, hint.__bound__)
    if hint is None or hint is types.NoneType:
        return value is None
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inside)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is collections.abc.Sequence or hint in (list, tuple):
        return _is_sequence(value, inside[0] if origin is collections.abc.Sequence else Any)
    kind = origin or hint
    return _is_a(value, kind) if isinstance(kind, type) else True


def _is_a(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind in (int, float):
        whole = isinstance(value, numbers.Integral)
        number = whole if kind is int else isinstance(value, numbers.Real) and not math.isnan(value)
        return number and not isinstance(value, bool)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    return isinstance(value, kind)


def _is_sequence(value: Any, hint: Any) -> bool:
    """Arrays and tensors of numbers are sequences here; text and mappings are not."""
    if isinstance(value, str | bytes | collections.abc.Mapping) or not hasattr(value, "__getitem__"):
        return False
    if not hasattr(value, "__len__"):
        return False
    return not isinstance(value, list | tuple) or all(fits(one, hint) for one in value[:_FEW])


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """The type that an annotation stands for; Any where its names are known to type checkers only."""
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)
    except NameError:
        return Any


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:40]}..."
    return type(value).__name__
