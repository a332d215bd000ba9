"""How many times the program says the same thing: concepts counted in the syntax trees of two commits.

    python studies/concepts.py 730c7db HEAD

For each concept: the definitions (functions, methods, classes) whose names say that they are an implementation of it,
without those that only call another one. What has such a name for another reason is in ``OTHERS``, with the reason.
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
    r"|def _elements$"
    r"|class (MoveGroup|Automorphisms)$",
    "orbit routines": r"def (orbits|_orbits|orbit_labels|signed_orbits|_one_orbit|_entry_orbits)$"
    r"|def (point_orbits|transitive)$",
    "cycle printers": r"def (_cycles|in_cycles|cycles|_in_cycles|cycle_words|_cycle)$",
    "same-run checks": r"def (check_same|_same|same_run|check_equal|_check_same|check_same_run)$",
    "command builders": r"def (command|command_line|_command|flags)$",
    "flag bridges": r"def (add_flags|_add_options|add_recipe)$",
    "result schemas": r"class ([A-Z][a-z]*Result|Result|ResultFile|RunResult)$",
    "openers of runs": r"def (open_run|load_learned|load_discovered|load_run|open_learned)$"
    r"|def (_open_experiment|_open_learned|_opened)$",
}

OTHERS: dict[str, str] = {
    "discovery/finite/group_certificate.py:generated": "asks SignedGroup",
    "robots/finding_mirrors.py:_generated": "asks SignedGroup",
    "groups/signed_groups.py:orbits": "asks weight_orbits, which asks orbit_labels",
    "groups/signed_groups.py:transitive": "asks point_orbits",
    "inspection/layers.py:_entry_orbits": "asks weight_orbits",
    "inspection/reports.py:transitive": "a stored fact",
    "verdicts/reports.py:transitive": "a stored fact",
    "groups/signed_permutations.py:cycles": "what in_cycles prints",
    "runs/files/command_line.py:flags": "a part of command_line",
    "runs/learning/learned_run.py:open_learned": "open_run, for one kind",
    "runs/reproducing/experiment_run.py:load_run": "open_run, for one kind",
    "experiments/discovering/discover_files.py:MoveFile": "what a file may hold",
    "runs/files/discover_files.py:MoveFile": "what a file may hold",
    "experiments/discovering/discover_finite.py:_move": "reads one from a file",
    "inspection/actions.py:_signed": "a group's matrices as permutations, once for all encodings",
    "inspection/finding.py:_element": "makes one",
    "inspection/network.py:Move": "any function of a tensor, such as a turn of an image",
    "inspection/element_actions.py:Move": "the same",
    "inspection/network.py:_move": "the same",
    "report/discovered_page.py:_move": "words",
    "discovery/callables/callable_symmetries.py:_element": "makes one",
    "discovery/callables/partial_point_search.py:_element": "makes one",
    "discovery/callables/call_certificate.py:_orbits": "defects on the cycles of one element",
    "discovery/callables/called_function.py:_same": "inputs before and after a call",
    "runs/files/result_files.py:FunctionResult": "a part of a result",
    "report/mirror_page.py:_element": "words",
    "robots/observation_code.py:_signed": "a number with its sign, as text",
    "groups/pattern_groups.py:_doubled": "vertices of a graph, for nauty",
    "discovery/closing.py:closure": "of an optimizer",
    "discovery/algebra/nearest_algebra.py:closure": "of an optimizer",
    "discovery/symmetric_fit.py:products": "of polynomials",
    "discovery/models/invariant_features.py:products": "of polynomials",
    "inspection/verdict.py:_group": "words",
    "verdicts/layer_words.py:_group": "words",
    "groups/orbit_actions.py:_elements": "asks products",
    "fast_layers/adapted_basis.py:_elements": "asks SignedGroup",
    "structured/adapted_basis.py:_elements": "asks a group",
    "groups/names.py:generated": "a subgroup inside a multiplication table, to name it",
    "inspection/names.py:generated": "a subgroup inside a multiplication table, to name it",
    "fast_layers/shifts.py:_cycle": "the permutation of a shift",
    "experiments/paper/whole_tables.py:_command": "starts a process",
    "runs/reproducing/whole_tables.py:_command": "starts a process",
    "runs/cells.py:command": "starts a process",
    "experiments/own_tasks/training_stages.py:_options": "of a learner",
    "runs/learning/chosen_learners.py:_options": "of a learner",
    "runs/files/result_files.py:ScoredResult": "RunResult with scores",
    "runs/files/result_files.py:DiscoverResult": "RunResult with claims",
    "runs/files/schemas.py:PromisedResult": "the part that is promised, as a JSON schema",
    "tasks/table_files.py:_opened": "a table",
}
"""Places whose names fit a concept and that are none of its implementations, with the reason."""

SCRIPTS = {
    "import metasym; ms.MSR; ms.train": "import metasym as ms; ms.MSR; ms.train",
    "a run of metasym learn": (
        "import numpy as np, pathlib, tempfile\n"
        "from metasym.cli import main\n"
        "d, draw = pathlib.Path(tempfile.mkdtemp()), np.random.default_rng(0)\n"
        "x, filters = draw.normal(size=(30, 12, 8)), draw.normal(size=(30, 8))\n"
        "y = np.stack([sum(f[i] * np.roll(x[t], i, -1) for i in range(8)) for t, f in enumerate(filters)])\n"
        "np.savez(d / 't.npz', x=x, y=y)\n"
        "flags = ['--support', '6', '--no-baseline', '--progress', 'silent']\n"
        "assert main(['learn', str(d / 't.npz'), '--out', str(d / 'run'), *flags]) == 0"
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
    """Where the concept is implemented: a definition that calls another one of it only uses it."""
    wanted = re.compile(pattern)
    named: dict[str, ast.AST] = {}
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            kind = {ast.FunctionDef: "def", ast.ClassDef: "class"}.get(type(node))
            name = getattr(node, "name", "")
            place = f"{path.relative_to(source / 'metasym')}:{name}"
            if kind and wanted.match(f"{kind} {name}") and place not in OTHERS:
                named[place] = node
    names = {place.split(":")[1] for place in named}
    return [place for place, node in named.items() if not (_called(node) - {place.split(":")[1]}) & names]


def _called(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ClassDef):
        return set()
    return {
        getattr(call.func, "id", getattr(call.func, "attr", ""))
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
    }


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
