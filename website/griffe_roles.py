"""Docstrings name functions the Sphinx way, :func:`name`; on the site they become links, or plain code."""

from __future__ import annotations

import re
from typing import Any

import griffe

import metasym

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?([\w.]+)`")


class Roles(griffe.Extension):
    """Rewrites the roles of every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_linked, obj.docstring.value)


def _linked(role: re.Match[str]) -> str:
    """A link where the name is one of ``metasym``'s own public names, which the reference always has."""
    name = role[1].removeprefix("metasym.")
    if name not in metasym.__all__:
        return f"`{role[1]}`"
    return f"[`{name}`][metasym.{name}]"
