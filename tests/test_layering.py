"""The rooms of the house, and which room may import which."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from studies.concepts import SCRIPTS

import metasym

SOURCE = Path(metasym.__file__).parent

AT_THE_ROOT = {"__init__", "__main__", "errors", "argument_types", "types", "nn", "testing", "sklearn"}

FOUNDATIONS = {"errors", "argument_types"}
"""What every room may import: how it refuses, and how it looks at the arguments of its public functions."""

MAY_IMPORT = {
    "errors": "",
    "argument_types": "",
    "types": "",
    "storage": "types",
    "native": "storage",
    "groups": "types",
    "verdicts": "types storage groups",
    "robots": "types storage groups verdicts",
    "symmetry": "types groups",
    "nn": "types",
    "models": "types groups symmetry nn",
    "tasks": "types native storage groups models",
    "diagnosis": "types tasks",
    "adaptation": "types",
    "evidence": "types",
    "engines": "types native symmetry nn adaptation",
    "inspection": "types storage groups symmetry verdicts",
    "learners": "types symmetry nn adaptation evidence engines",
    "fast_layers": "types storage groups symmetry inspection verdicts learners",
    "testing": "types groups learners",
    "training": "types storage symmetry tasks adaptation learners",
    "certification": "types groups evidence inspection verdicts",
    "discovery": "types groups tasks diagnosis inspection certification verdicts",
    "paper": "types storage groups symmetry models tasks adaptation engines learners training",
    "runs.files": "types storage verdicts symmetry tasks diagnosis paper",
    "report": "types storage groups verdicts robots symmetry models tasks diagnosis inspection fast_layers training "
    "paper runs.files",
    "runs": "types storage groups verdicts symmetry nn models tasks diagnosis adaptation evidence engines "
    "inspection fast_layers learners training certification discovery paper runs.files report",
    "sklearn": "types tasks runs",
    "cli": "types native storage groups verdicts robots symmetry models tasks diagnosis engines inspection "
    "fast_layers learners testing training certification discovery paper runs.files runs report",
}
"""For each room, the rooms it may import. ``__init__`` and ``__main__`` open the doors of all.

A room inside a room may have a line of its own; a module belongs to the longest name that fits.
"""

INSIDE = {
    "runs": {"learning": "", "reproducing": "", "discovering": ""},
    "discovery": {
        "algebra": "",
        "models": "algebra",
        "continuous": "algebra models",
        "finite": "algebra models",
        "families": "algebra models",
        "callables": "algebra models continuous",
    },
}
"""For rooms with rooms inside: the inner rooms that each of them may import."""


@functools.cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name, without ``metasym.``."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
        for path in SOURCE.rglob("*.py")
        if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
    }


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> set[str]:
    """The modules of metasym that a file imports, at its top or inside functions, by their dotted names."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            package = node.module or ""
            found |= {package} | {f"{package}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    known = {name.removesuffix(".__init__") for name in modules()}
    inside = {name.removeprefix("metasym.") for name in found if name.startswith("metasym.")}
    return inside & known


def room_of(module: str) -> str:
    return max((room for room in MAY_IMPORT if f"{module}.".startswith(f"{room}.")), key=len)


def test_a_new_module_has_a_room() -> None:
    assert {path.stem for path in SOURCE.glob("*.py")} == AT_THE_ROOT
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert rooms | AT_THE_ROOT - {"__init__", "__main__"} == {room.split(".")[0] for room in MAY_IMPORT}


def test_rooms_import_only_what_the_table_says() -> None:
    wrong = []
    for name, path in modules().items():
        here = room_of(name)
        for other in {room_of(found) for found in imports(path)} - {here} - FOUNDATIONS:
            if other not in MAY_IMPORT[here].split():
                wrong.append(f"{name} imports {other}")
    assert not wrong


TRAINERS = (
    "metasym.learners",
    "metasym.engines",
    "metasym.evidence",
    "metasym.training.loop",
    "metasym.discovery",
)


def test_pages_and_tables_are_made_without_trainers() -> None:
    rooms = [name for name in modules() if name.split(".")[0] == "report"]
    imported = "; ".join(f"import metasym.{name.removesuffix('.__init__')}" for name in rooms)
    code = f"import sys; {imported}; print([m for m in sys.modules if m.startswith({TRAINERS!r})])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


UNUSED_BY_EVIDENCE = (
    "metasym.training.loop",
    "metasym.engines.kernels",
    "metasym.discovery",
    "metasym.verdicts.discovery_words",
    "metasym.inspection.network",
    "metasym.tasks.table_files",
    "metasym.tasks.streaming",
)


def test_learning_by_evidence_loads_what_it_uses() -> None:
    count = f"\nimport sys; print([m for m in sys.modules if m.startswith({UNUSED_BY_EVIDENCE!r})])"
    code = SCRIPTS["a run of metasym learn"] + count
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_the_table_has_no_cycle() -> None:
    seen: set[str] = set()
    for here, allowed in MAY_IMPORT.items():
        assert set(allowed.split()) <= seen, f"{here} may import a room that stands below it in the table"
        seen.add(here)


def test_inner_rooms_import_only_what_the_table_says() -> None:
    wrong = []
    for outer, inner in INSIDE.items():
        for name, path in modules().items():
            parts = name.split(".")
            if parts[0] != outer or parts[1] not in inner:
                continue
            others = {f.split(".")[1] for f in imports(path) if f.startswith(f"{outer}.")} - {parts[1]}
            wrong += [
                f"{name} imports {o}" for o in others if o in inner and o not in inner[parts[1]].split()
            ]
    assert not wrong


def test_no_module_imports_itself_in_a_circle() -> None:
    """Neither inside a room nor between rooms; a package's ``__init__`` counts as its own module."""
    named = {name.removesuffix(".__init__"): imports(path) for name, path in modules().items()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name in done:
            return
        for other in sorted(named[name]):
            # ``from metasym.room import thing`` names the room too; only the thing is meant if it is a module.
            if not (name.startswith(f"{other}.") and any(o.startswith(f"{other}.") for o in named[name])):
                visit(other, (*above, name))
        done.add(name)

    for name in sorted(named):
        visit(name, ())


def test_module_names_are_used_once() -> None:
    stems: dict[str, list[str]] = {}
    for name, path in modules().items():
        if path.stem != "__init__" and not name.startswith(
            "cli."
        ):  # a command's module is named as the command
            stems.setdefault(path.stem, []).append(name)
    assert not [names for names in stems.values() if len(names) > 1]


def test_only_the_command_line_prints() -> None:
    """Training's progress goes through rich or a stream of its own; nothing else writes to the terminal."""
    wrong = [
        name
        for name, path in modules().items()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        if not name.startswith("cli.") and name != "training.progress"
    ]
    assert not wrong


def test_nothing_is_unpickled() -> None:
    """No pickle, no torch.load, and numpy only without pickles."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert not re.search(r"(?<!safetensors\.)torch\.load\(", text), path
        assert "allow_pickle=True" not in text, path


@pytest.mark.parametrize("name", ["parametrizations"])
def test_names_that_torch_gives_are_spelled_in_one_module(name: str) -> None:
    """What ``torch.nn.utils.parametrize`` calls its parts is known to ``symmetry.parametrized`` alone."""
    spelled = [
        module
        for module, path in modules().items()
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Attribute) and node.attr == name)
        or (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.search(rf"\b{name}[.\\]", node.value)
        )
        or (isinstance(node, ast.Constant) and node.value == name)
    ]
    assert set(spelled) <= {"symmetry.parametrized"}


def test_files_are_short() -> None:
    long = {
        str(p.relative_to(SOURCE)): n
        for p in SOURCE.rglob("*.py")
        if (n := len(p.read_text().splitlines())) > 400
    }
    assert not long
