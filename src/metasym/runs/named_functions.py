"""Functions that a user names as ``package.module:function``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metasym.errors import asked, in_one_line
from metasym.types import MetasymError


def named_function(name: str, option: str = "") -> Callable[..., Any]:
    """The function ``package.module:function``, also from the current folder; errors are about the ``option``.

    The current folder stays behind the others on the path: the function may import from it when it is called.
    """
    module_name, _, attribute = name.partition(":")
    what, about = (asked(option, name), option) if option else (name, name)
    if not attribute:
        raise MetasymError(
            f"{what}: expected package.module:function, found no function", about=about, found=name
        )
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever a user's module raises
        said = in_one_line(error)
        raise MetasymError(
            f"{what}: expected a module {module_name!r} that can be imported, found {type(error).__name__}: {said}",
            about=about,
            found=type(error).__name__,
        ) from None
    finally:
        if added:
            sys.path.remove(here)
            sys.path.append(here)
    function = getattr(module, attribute, None)
    if not callable(function):
        found = "none" if function is None else type(function).__name__
        raise MetasymError(
            f"{what}: expected a function {attribute!r} in {module_name}, found {found}",
            about=about,
            found=found,
        )
    made: Callable[..., Any] = function
    return made
