"""How many times the program says the same thing: concepts counted in the syntax trees of two commits.

    python studies/concepts.py 730c7db HEAD

For each concept: the definitions (functions, methods, classes) whose names say that they are an implementation of it.
What only calls one, or has the name for another reason, is listed in ``OTHERS`` with the reason.
Writes ``results/concepts.json``: counts, places, lines by room, and modules that common imports load.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "concepts.json"

CONCEPTS: dict[str, str] = {
    "encodings of an element": r"class (GroupElement|Element|Move|MoveFile|SignedPermutation|GeneratorFile)$"
    r"|def (_element|_doubled|doubled_of|as_pair|_move|_signed|element_of|pairs_of|_elements_of)$",
    "closures of generators": r"def (closure|products|generated|_generated|_closure|group_of|_group|closed_under)$"
    r"|class (MoveGroup|Automorphisms)$",
    "orbit routines": r"def (orbits|_orbits|orbit_labels|signed_orbits|_one_orbit|_entry_orbits)$"
    r"|def (point_orbits|transitive)$",
    "cycle printers": r"def (_cycles|in_cycles|cycles|_in_cycles|cycle_words|_cycle)$",
    "same-run checks": r"def (check_same|_same|same_run|check_equal|_check_same)$",
    "command builders": r"def (command|command_line|_command|flags)$",
    "flag bridges": r"def (add_options|_add_flags|add_flags|_flags|options_of|_options|flags_of|options_from)$",
    "result schemas": r"class ([A-Z][a-z]*Result|Result|ResultFile|RunResult)$",
    "openers of runs": r"def (open_run|load_learned|load_discovered|load_run|open_learned)$"
    r"|def (_open_experiment|_open_learned|_opened)$",
}

SCRIPTS = {
    "import metasym; ms.MSR; ms.train": "import metasym as ms; ms.MSR; ms.train",
    "a run of ms.learn": (
        "import metasym as ms\n"
        "t = ms.tasks.planted('shifts12', tasks=30, examples=12, seed=3)\n"
        "import numpy as np, tempfile, pathlib\n"
        "from metasym.cli import main\n"
        "d = pathlib.Path(tempfile.mkdtemp())\n"
        "np.savez(d / 't.npz', x=t.x.numpy(), y=t.y.numpy())\n"
        "main(['learn', str(d / 't.npz'), '--support', '6', '--no-baseline', '--out', str(d / 'run'), '--quiet'])"
    ),
}


def main(before: str, after: str) -> None:
    """Count at both commits, print the table and write the file."""
    found = {name: counted(name) for name in (before, after)}
    width = max(map(len, CONCEPTS))
    print(f"{'':{width}}  {before:>10}  {after:>10}")
    for concept in CONCEPTS:
        a, b = (len(found[name]["concepts"][concept]) for name in (before, after))
        print(f"{concept:{width}}  {a:>10}  {b:>10}")
    for what in SCRIPTS:
        a, b = (found[name]["modules"][what] for name in (before, after))
        print(f"{'modules: ' + what:{width}}  {a:>10}  {b:>10}")
    a, b = (sum(found[name]["lines"].values()) for name in (before, after))
    print(f"{'lines':{width}}  {a:>10,}  {b:>10,}")
    OUT.write_text(json.dumps(found, indent=1) + "\n")


def counted(revision: str) -> dict[str, Any]:
    """Everything that is counted of one commit."""
    archive = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(fileobj=io.BytesIO(archive)) as file:
            file.extractall(scratch, filter="data")
        source = Path(scratch) / "src"
        return {
            "concepts": {concept: _places(source, pattern) for concept, pattern in CONCEPTS.items()},
            "modules": {what: _modules(source, script) for what, script in SCRIPTS.items()},
            "lines": _lines(source),
            "files": sum(1 for _ in source.rglob("*.py")),
        }


def _places(source: Path, pattern: str) -> list[str]:
    wanted = re.compile(pattern)
    found = []
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            kind = {ast.FunctionDef: "def", ast.ClassDef: "class"}.get(type(node))
            name = getattr(node, "name", "")
            if kind and wanted.match(f"{kind} {name}"):
                found.append(f"{path.relative_to(source / 'metasym')}:{name}")
    return found


def _modules(source: Path, script: str) -> int:
    count = "\nimport sys; print(sum(m.split('.')[0] == 'metasym' for m in sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", script + count],
        env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout.split()[-1])


def _lines(source: Path) -> dict[str, int]:
    count: Counter[str] = Counter()
    for path in source.rglob("*.py"):
        room = path.relative_to(source / "metasym").parts
        count[room[0] if len(room) > 1 else "."] += len(path.read_text().splitlines())
    return dict(sorted(count.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
