"""Whether stored settings are those of the run that is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from metasym.storage.json_files import storable
from metasym.types import MetasymError

_MOST_SHOWN = 4
"""Differing settings that an error names; the rest it counts."""


def differences(wanted: Any, stored: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every setting, by its path, that two descriptions of runs do not share: what is wanted, what is stored."""
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping):
        for key in dict.fromkeys([*wanted, *stored]):
            yield from differences(wanted.get(key), stored.get(key), f"{path}.{key}".lstrip("."))
    elif wanted != stored:
        yield path, wanted, stored


def check_same_run(
    wanted: Any,
    stored: Any,
    name: str,
    what: str = "an empty folder or a run",
    remedy: str = "",
    error: type[MetasymError] = MetasymError,
) -> None:
    """Refuse the settings ``stored`` in ``name`` if they are not the ``wanted`` ones, naming what differs."""
    differing = list(differences(as_stored(wanted, error), as_stored(stored, error)))
    if not differing:
        return
    shown = differing[:_MOST_SHOWN]
    expected = ", ".join(f"{path} {value!r}" for path, value, _ in shown)
    found = ", ".join(f"{value!r}" for _, _, value in shown)
    more = f" ({len(differing) - len(shown)} more differ)" if len(differing) > len(shown) else ""
    first, _, value = differing[0]
    raise error(
        f"{name}: expected {what} with {expected}, found one with {found}{more}{remedy}",
        about=f"{name}: {first}",
        found=value,
    )


def as_stored(value: Any, error: type[MetasymError] = MetasymError) -> Any:
    """``value`` as it comes back from a file: tuples as lists, keys as text."""
    try:
        return json.loads(json.dumps(storable(value)))
    except TypeError as cause:
        raise error(
            f"expected numbers and text in the settings of a run, found {cause}",
            about="settings",
            found=str(cause),
        ) from None
