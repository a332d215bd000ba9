"""``python -m benchmarks``: speed beside other libraries; ``end_to_end``: whole steps with sampling, with and without
each fast path; ``scaling``: how cost grows; ``jobs``: whole jobs; ``structured``: compiled layers beside dense ones;
``reading``: how ``ms.inspect`` grows with U; ``discovering``: run times of ``ms.discover`` beside what others train.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import reading, structured, tables
from benchmarks.discovering import PROBLEMS, run_times
from benchmarks.end_to_end import CELLS, measure
from benchmarks.jobs import table1_job
from benchmarks.runner import FULL, QUICK, ROOT, Plan, machine, run_row, worker
from benchmarks.scaling import AXES, POINTS, dense_limit, exponent
from benchmarks.workloads import ROWS
from metasym.storage.json_files import read_json, write_json
from metasym.types import MetasymError


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument(
        "what",
        nargs="?",
        default="rows",
        choices=("rows", "end_to_end", "scaling", "jobs", "structured", "reading", "discovering"),
        help="what is measured (default: rows)",
    )
    made.add_argument(
        "--row",
        action="append",
        metavar="NAME",
        help="only this row, or problem of discovering (again for more); see --list",
    )
    made.add_argument("--axis", action="append", choices=list(AXES), help="scaling: only this axis")
    made.add_argument("--data", help="end_to_end: folder of the images, for the rows of Table 3")
    made.add_argument("--quick", action="store_true", help="two short rounds, for a look; written nowhere")
    made.add_argument("--list", action="store_true", help="name the rows and end")
    made.add_argument(
        "--out",
        type=Path,
        default=ROOT / "results" / "bench",
        help="folder of JSON and charts (results/bench)",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write."""
    options = parser().parse_args(arguments)
    if options.list:
        for name, row in ROWS.items():
            print(f"{name:18s} {row.title}")
        for name, problem in PROBLEMS.items():
            print(f"{name:18s} discovering: {problem.title}")
        return 0
    try:
        plan = QUICK if options.quick else FULL
        if options.what == "rows":
            rows(options.row, plan, options.out, write=not options.quick)
        elif options.what == "end_to_end":
            whole_steps(options.row, plan, options.data, options.out, write=not options.quick)
        elif options.what == "scaling":
            scaling(options.axis, plan, options.out, write=not options.quick)
        elif options.what == "structured":
            structured_layers(plan, options.out, write=not options.quick)
        elif options.what == "discovering":
            discovering(options.row, plan, options.out, write=not options.quick)
        elif options.what == "reading":
            reading_of_u(options.out, write=not options.quick)
        else:
            jobs(plan, options.out, write=not options.quick)
    except MetasymError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return 2
    return 0


def rows(wanted: list[str] | None, plan: Plan, out: Path, *, write: bool) -> None:
    """All rows, or those that are wanted; earlier results of other rows are kept."""
    unknown = [name for name in wanted or () if name not in ROWS]
    if unknown:
        raise MetasymError(f"expected rows of {', '.join(ROWS)}, found {', '.join(unknown)}")
    for name in wanted or ROWS:
        result = {**run_row(name, plan, say), "machine": machine()}
        print("\n".join(tables.row_lines(result)), flush=True)
        if write:
            write_json(out / f"{name}.json", result)
    if write:
        known = [read_json(out / f"{n}.json", "a benchmark") for n in ROWS if (out / f"{n}.json").exists()]
        tables.ratio_chart(known, out / "ratios.png")
        print(f"\n{tables.markdown(known)}\nwritten to {out}")


def whole_steps(wanted: list[str] | None, plan: Plan, data: str | None, out: Path, *, write: bool) -> None:
    """Whole steps of every row's cell; without --data those on images are left out. Earlier results are kept."""
    unknown = [name for name in wanted or () if name not in CELLS]
    if unknown:
        raise MetasymError(f"expected rows of {', '.join(CELLS)}, found {', '.join(unknown)}")
    path = out / "end_to_end.json"
    found = read_json(path, "benchmarks")["rows"] if path.exists() and write else {}
    for name in wanted or CELLS:
        if CELLS[name].name.startswith("aug-") and data is None:
            say(f"{name}: needs images, --data DIR; left out")
            continue
        found[name] = {**measure(name, rounds=plan.rounds, data=data, say=say), "machine": machine()}
        if write:
            write_json(path, {"rows": found})


def discovering(wanted: list[str] | None, plan: Plan, out: Path, *, write: bool) -> None:
    """Every problem with its methods in turn; earlier results of other problems are kept."""
    unknown = [name for name in wanted or () if name not in PROBLEMS]
    if unknown:
        raise MetasymError(f"expected problems of {', '.join(PROBLEMS)}, found {', '.join(unknown)}")
    path = out / "discovering.json"
    found = read_json(path, "benchmarks")["problems"] if path.exists() and write else {}
    for name in wanted or PROBLEMS:
        found[name] = run_times(name, plan.rounds, plan.seconds, say)
        if write:
            write_json(path, {"problems": {known: found[known] for known in PROBLEMS if known in found}})
    print(tables.run_times([found[name] for name in PROBLEMS if name in found]))


def scaling(wanted: list[str] | None, plan: Plan, out: Path, *, write: bool) -> None:
    """Every point in a process of its own; earlier results of other axes are kept."""
    path = out / "scaling.json"
    old = read_json(path, "benchmarks")["points"] if path.exists() and write else []
    points: list[dict[str, Any]] = [p for p in old if wanted is not None and p["axis"] not in wanted]
    for name, point in POINTS.items():
        if wanted is not None and point.axis not in wanted:
            continue
        with worker("scaling", name) as contender:
            done = [contender.run(plan.seconds / 2) for _ in range(2)]
            imported = contender.hello["imported"]
        best = min(d["processor"] / d["steps"] for d in done)
        extra = (done[-1]["peak"] - imported) / 2**20
        points.append({"axis": point.axis, "size": point.size, "milliseconds": 1e3 * best, "extra_mb": extra})
        print(f"{name:16s} {1e3 * best:9.4g} ms a step, {extra:7.1f} MB beyond imports", flush=True)
    found = {}
    for axis in AXES:
        chosen = sorted((p for p in points if p["axis"] == axis), key=lambda p: p["size"])
        if len(chosen) > 2:
            sizes = [float(p["size"]) for p in chosen]
            found[axis] = {
                key: exponent(sizes, [max(p[key], 1e-3) for p in chosen])
                for key in ("milliseconds", "extra_mb")
            }
            print(
                f"{axis}: time ~ size^{found[axis]['milliseconds']:.2f}, memory ~ size^{found[axis]['extra_mb']:.2f}"
            )
    here = machine()
    memory = int((here["memory_gb"] or 16) * 1e9)
    print(
        f"a dense square U of a layer n -> n, its gradient and Adam's moments fit up to "
        f"n = {dense_limit(memory)} here"
    )
    if write:
        write_json(
            path, {"machine": here, "points": points, "exponents": found, "dense_limit": dense_limit(memory)}
        )
        tables.scaling_chart(points, out / "scaling.png")


def jobs(plan: Plan, out: Path, *, write: bool) -> None:
    """Table 1 before and after."""
    result = table1_job(say, plan.seconds / 2)
    print(
        f"Table 1, {result['cells_with_a_record']} of {result['cells']} cells, one seed, two cores: "
        f"{result['before_minutes_on_two_cores']:.1f} min before, {result['after_minutes_on_two_cores']:.1f} min now"
    )
    if write:
        write_json(out / "jobs.json", {**result, "machine": machine()})


def structured_layers(plan: Plan, out: Path, *, write: bool) -> None:
    """Compiled layers beside dense ones; a quick look takes the smaller sizes only."""
    sizes = structured.SIZES if write else structured.SIZES[:3]
    found = structured.rows(plan.seconds / 4, sizes, say)
    print("\n".join(structured.judged(found)))
    if write:
        write_json(out / "structured.json", {"machine": machine(), "rows": found})


def reading_of_u(out: Path, *, write: bool) -> None:
    """How ``ms.inspect`` grows; a quick look takes the smaller sizes only."""
    found = reading.series(reading.SIZES if write else reading.SIZES[:2], say)
    entries = [float(row["entries"]) for row in found]
    if len(found) > 2:
        print(f"time ~ entries^{exponent(entries, [row['seconds'] for row in found], last=len(found)):.2f}")
    if write:
        write_json(out / "reading.json", {"machine": machine(), "rows": found})


def say(line: str) -> None:
    """Progress, apart from results."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
