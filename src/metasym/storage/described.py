"""What a file may hold, written as types, and errors of one line about a field that holds something else.

A description is a dataclass or a ``TypedDict``; the names below give numbers their bounds. Files come from killed
programs, other versions and other people. What they hold is compared with the description when they are read, so
that no later code meets a value that it does not expect.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar, cast

import msgspec

from metasym.types import MetasymError

_LARGEST_INTEGER = 2**53
"""The largest whole number that a float, which other programs read JSON's numbers as, holds exactly."""
Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_INTEGER)]
"""A number of things: steps, tasks, entries."""
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""Finite, with room to calculate."""
Score = Number | None
"""A number, or null for NaN and infinity, which JSON does not know."""
Scalar = bool | int | float | str | None

Kind = TypeVar("Kind")

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "object": "an object",
    "array": "a list",
    "null": "null",
    "list": "a list",
    "dict": "an object",
    "Tensor": "a tensor",
}
_GOT = re.compile(r"Expected `(?P<wanted>.+?)`, got `(?P<found>.+?)`$")
_MISSING = re.compile(r"Object missing required field `(?P<name>.+?)`$")
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<place>(?:key in )?\$.*?)`)?$", re.DOTALL)


def described(
    value: Any, kind: type[Kind] | Any, name: str, *, error: type[MetasymError] = MetasymError
) -> Kind:
    """``value`` as ``kind`` describes it; ``name`` is what errors call the file, or the line of a file.

    Fields that the description does not know are left out: a newer version may have written them.
    """
    try:
        return cast(Kind, msgspec.convert(value, kind))
    except msgspec.ValidationError as found:
        said, field, there = _said(str(found), value)
        if isinstance(found.__cause__, MetasymError):  # a dataclass's own check
            field, there = ".".join(filter(None, (field, found.__cause__.about))), found.__cause__.found
        raise error(f"{name}: {said}", about=f"{name}: {field}" if field else name, found=there) from None


def _said(message: str, value: Any) -> tuple[str, str, Any]:
    """The library's message in our words; which field it is about, and what is there."""
    parts = _AT.match(message)
    assert parts is not None  # everything in it is optional
    what, place = parts["what"], parts["place"] or "$"
    field = place.removeprefix("key in ").removeprefix("$").lstrip(".")
    there = _at(value, place) if "..." not in place else None
    found = _shown(there) if "..." not in place else "another value"
    if got := _GOT.match(what):
        seen = _WORDS.get(got["found"], got["found"])
        return f"expected {field or 'the whole'} to be {_words(got['wanted'])}, found {seen}", field, there
    if missing := _MISSING.match(what):
        name = f"{field}.{missing['name']}" if field else missing["name"]
        return f"expected a field {name}, found none", name, None
    if what.startswith("Expected "):  # a bound
        bound = re.sub(r"`(\w+)`", lambda one: _WORDS.get(one[1], one[1]), what.removeprefix("Expected "))
        return f"expected {field} to be {bound}, found {found}", field, there
    if what.startswith(("Invalid", "Number out of range", "Integer value out of range")):
        return f"expected {field} to be one of the values that it may have, found {found}", field, there
    return f"{field}: {what}" if field else what, field, there


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _at(value: Any, place: str) -> Any:
    """The value at a place such as ``$.recipe.sizes[2]``."""
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", place):
        try:
            value = value[name] if name else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        return "a whole number that is too large"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
