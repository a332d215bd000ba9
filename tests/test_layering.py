"""Imports go one way: a room may import only from the rooms before it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import metasym

SOURCE = Path(metasym.__file__).parent

ORDER = [
    "types",
    "paths",
    "groups",
    "symmetry",
    "field_symmetry",
    "selection",
    "reparam",
    "costs",
    "pruning",
    "functional",
    "linear_solve",
    "contraction",
    "kernels",
    "gram",
    "spread",
    "joint",
    "closed_layer",
    "closed",
    "quadratic",
    "nn",
    "stages",
    "convolutions",
    "layer_order",
    "chain",
    "chain_estimates",
    "chained",
    "chain_embeddings",
    "models",
    "tasks",
    "learners",
    "testing",
    "serialization",
    "distributed",
    "signals",
    "memory",
    "metrics",
    "progress",
    "randomness",
    "supply",
    "checkpoint",
    "evaluation",
    "guard",
    "outer",
    "training",
    "inspection",
    "experiments",
    "report",
    "cli",
]


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metasym":
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            split = [alias.name.split(".") for alias in node.names if alias.name.split(".")[0] == "metasym"]
            names = [parts[1] if len(parts) > 1 else "__version__" for parts in split]
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
        found |= {name for name in names if name != "__version__"}
    return found


def test_every_room_is_in_the_order() -> None:
    rooms = {room(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert rooms == set(ORDER)


def test_imports_go_one_way() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        here = room(path)
        if here in ("__init__", "__main__"):
            continue
        for other in imported_rooms(path) - {here}:
            if ORDER.index(other) >= ORDER.index(here):
                wrong.append(f"{path.relative_to(SOURCE)} imports {other}")
    assert not wrong


def test_only_the_command_line_prints() -> None:
    """Training's progress goes through rich or a stream of its own; nothing else writes to the terminal."""
    wrong = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        if room(path) not in ("cli", "progress")
    ]
    assert not wrong


def test_nothing_is_unpickled() -> None:
    """No pickle, no torch.load, and numpy only without pickles."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert not re.search(r"(?<!safetensors\.)torch\.load\(", text), path
        assert "allow_pickle=True" not in text, path


def test_files_are_short() -> None:
    long = {
        str(p.relative_to(SOURCE)): n
        for p in SOURCE.rglob("*.py")
        if (n := len(p.read_text().splitlines())) > 400
    }
    assert not long
