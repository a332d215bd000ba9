"""The one bridge from a dataclass of options to flags, and back."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from metasym.storage.options import flag, kinds


def add_flags(parser: argparse.ArgumentParser, described: type, title: str) -> None:
    """A flag for each field of the dataclass ``described``; what is not given is not in the namespace."""
    group = parser.add_argument_group(title)
    for field in dataclasses.fields(described):
        kind, optional = kinds(described)[field.name]
        about: dict[str, Any] = {
            "dest": field.name,
            "default": argparse.SUPPRESS,
            "help": field.metadata["help"],
        }
        if kind is bool:
            group.add_argument(flag(field.name), action=argparse.BooleanOptionalAction, **about)
        elif field.metadata["choices"]:
            group.add_argument(flag(field.name), choices=field.metadata["choices"], **about)
        else:
            metavar = {int: "N", float: "X", str: "TEXT"}[kind]
            taken = _none_or(kind) if optional and kind is not str else kind
            group.add_argument(flag(field.name), type=taken, metavar=metavar, **about)


def given(options: argparse.Namespace, described: type) -> dict[str, Any]:
    """The fields of ``described`` that the command line gives."""
    known = {field.name for field in dataclasses.fields(described)}
    return {name: value for name, value in vars(options).items() if name in known}


def _none_or(kind: type) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        return None if text == "none" else kind(text)

    parse.__name__ = f"{kind.__name__} (or none)"
    return parse
