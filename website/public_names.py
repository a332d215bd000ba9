"""Every name that users may import, which the reference has to explain."""

from __future__ import annotations

import importlib
from types import ModuleType

import metasym

MODULES = ("inspection", "verdicts", "learners", "fast_layers", "robots")
"""Rooms whose own ``__all__`` is public though ``metasym`` does not list them."""


def public_names() -> set[str]:
    """``metasym.train``, ``metasym.groups.cyclic`` and so on; of a name with two addresses the shorter one."""
    short = {name for name in metasym.__all__ if not isinstance(getattr(metasym, name), ModuleType)}
    found = {f"metasym.{name}" for name in short}
    rooms = {name for name in metasym.__all__ if isinstance(getattr(metasym, name), ModuleType)}
    for room in (*sorted(rooms), *MODULES):
        module = importlib.import_module(f"metasym.{room}")
        for name in getattr(module, "__all__", None) or _own(module):
            again = name in short and getattr(metasym, name) is getattr(module, name)
            if not again:
                found.add(f"metasym.{room}.{name}")
    return found


def _own(module: ModuleType) -> list[str]:
    """Without ``__all__``: what the module itself defines and does not hide."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
