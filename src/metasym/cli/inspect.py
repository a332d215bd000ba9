"""``metasym inspect``: which symmetry a trained run has learned."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasym.cli.adapted_table import show_functions
from metasym.cli.common import Commands, console, say
from metasym.storage.json_files import storable
from metasym.types import MetasymError

if TYPE_CHECKING:
    from metasym.groups.signed_permutations import SignedPermutation
    from metasym.runs.run import Run
    from metasym.verdicts.reports import GroupErrors, LayerReport
    from metasym.verdicts.symmetry_report import SymmetryReport

PROJECTED = "projected.safetensors"
_BAR = 40
_LARGE = 2**20
"""With more entries of U than this, its singular values are worth more than one thread."""


def add(commands: Commands) -> None:
    """The command's flags."""
    from metasym.inspection.actions import HELP

    groups = "\n".join(
        textwrap.fill(f"{name:<18} {about}", 100, initial_indent="  ", subsequent_indent=" " * 21)
        for name, about in HELP.items()
    )
    inspect = commands.add_parser(
        "inspect",
        help="which symmetry a trained run has learned",
        description="Read, from U U^T, which weights of each layer are tied, and by which group.",
        epilog=f"groups for --group:\n{groups}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument(
        "run", type=Path, metavar="DIR", help="folder of metasym run or learn, or a file of ms.save_symmetry"
    )
    inspect.add_argument("--json", action="store_true", help="for programs")
    inspect.add_argument(
        "--group", metavar="NAME", help="also print the equivariance error for this group (see below)"
    )
    inspect.add_argument(
        "--function",
        action="store_true",
        help="also test the networks adapted to the run's test tasks, all layers together, for --group "
        "(default: the usual transforms of images, else a group that half of the tasks propose); for every method",
    )
    inspect.add_argument(
        "--model",
        metavar="MODULE:FUNCTION",
        help=(
            "with --function: creates what only your program can: your own network of a learn run, or the learner "
            "of a folder of ms.train"
        ),
    )
    inspect.add_argument(
        "--test-tasks",
        metavar="MODULE:FUNCTION",
        help="with --function: makes the test tasks of a folder of ms.train",
    )
    inspect.add_argument(
        "--tasks", type=int, metavar="N", help="test tasks that --function adapts to (default: 50)"
    )
    inspect.add_argument(
        "--beside",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help=(
            "with --function: another run to test in the same way, shown in the same table (may be given several "
            "times)"
        ),
    )
    inspect.add_argument(
        "--project",
        action="store_true",
        help=f"snap U to the pattern that was found, say how the score changes, write DIR/{PROJECTED}",
    )
    inspect.set_defaults(command=_inspect)


def _inspect(options: argparse.Namespace) -> None:
    if options.function:
        _ask_functions(options)
        return
    for flag, given in (
        ("--tasks", options.tasks is not None),
        ("--beside", bool(options.beside)),
        ("--model", options.model is not None),
        ("--test-tasks", options.test_tasks is not None),
    ):
        if given:
            raise MetasymError(f"expected {flag} with --function, found it alone", about=flag, found="alone")
    projection, result = None, None
    if options.run.suffix == ".safetensors":
        report = _stored(options)
    else:
        report, projection, result = _of_run(options)
    if options.json:
        found = {**report.to_json(), **_scores(result)}
        if projection is not None:
            found["projection"] = projection
        print(json.dumps(storable(found), allow_nan=False))
        return
    show(report)
    if result is not None:
        from metasym.report.comparison_words import bought

        if (sentence := bought(result)) is not None:
            print(sentence)
    if projection is not None:
        _show_projection(projection)


def _ask_functions(options: argparse.Namespace) -> None:
    """What the layers have learned, where they have symmetries, and what the adapted networks do."""
    from metasym.cli.asked_runs import open_asked
    from metasym.inspection import inspect
    from metasym.runs.adapted_functions import TASKS, adapted_functions, default_group
    from metasym.runs.machine import threads
    from metasym.symmetry.reparam import symmetries

    if options.project or options.run.suffix == ".safetensors":
        found = "--project" if options.project else f"the file {options.run}"
        raise MetasymError(
            f"expected the folder of a run with --function, found {found}",
            about=str(options.run),
            found=found,
        )
    if options.tasks is not None and options.tasks < 2:
        raise MetasymError(
            f"expected --tasks of at least 2, found {options.tasks}", about="--tasks", found=options.tasks
        )

    def note(done: int, of: int) -> None:
        if done == of or done % 10 == 0:
            say(f"{done} of {of} test tasks")

    with threads(1):
        opened, asked_tasks = open_asked(options.run, options.model, options.test_tasks)
        count, first, group = options.tasks or TASKS, 0, options.group
        if group is None:
            group, first = default_group(asked_tasks, count)
        functions = adapted_functions(asked_tasks, group, tasks=count, first=first, note=note)
        others = []
        for path in options.beside:
            say(f"also {path}")
            run, its_tasks = open_asked(path, options.model, options.test_tasks)
            other = adapted_functions(its_tasks, group, tasks=count, first=first, note=note)
            others.append((path, run.name, other))
        model = opened.learner.model
        report = _certified(opened, inspect(model), asked=False) if symmetries(model) else None
    if options.json:
        layers = {} if report is None else report.to_json()
        beside = [{"run": str(path), **other.to_json()} for path, _, other in others]
        more = {"beside": beside} if beside else {}
        print(json.dumps(storable({**layers, "function": functions.to_json(), **more}), allow_nan=False))
        return
    if report is not None:
        show(report)
    asked = [(options.run, opened.name, functions), *others]
    distinct = len({name for _, name, _ in asked}) == len(asked)
    show_functions([(name if distinct else str(path), found) for path, name, found in asked])


def _stored(options: argparse.Namespace) -> SymmetryReport:
    """The report stored with a symmetry."""
    from metasym.inspection import load_symmetry

    if options.project or options.group:
        flag = "--project" if options.project else "--group"
        raise MetasymError(
            f"expected the folder of a run for {flag}, found the file {options.run}",
            about=str(options.run),
            found="a file",
        )
    return load_symmetry(options.run).report


def _of_run(
    options: argparse.Namespace,
) -> tuple[SymmetryReport, dict[str, Any] | None, dict[str, Any] | None]:
    """The report, what a projection did, and the run's result where it has scores without the symmetry."""
    from metasym.inspection import inspect
    from metasym.runs.machine import threads
    from metasym.runs.open_runs import open_run

    with threads(1):
        opened = open_run(options.run)
        model = opened.learner.model
        shape = opened.input_shape if options.group else None
        large = any(p.numel() > _LARGE for p in model.parameters())
    with threads(None if large else 1):
        report = _certified(opened, inspect(model, options.group, inputs=shape), asked=bool(options.group))
        if options.project:
            return *_project(options.run, opened, options.group, shape), None
        return report, None, getattr(opened, "result", None)


def _scores(result: dict[str, Any] | None) -> dict[str, Any]:
    """What averaging U over the symmetry brings, for programs: mean and interval by number of support examples."""
    if result is None or not result.get("without_symmetry"):
        return {}

    def means(scores: dict[str, Any]) -> dict[str, Any]:
        return {count: {key: cell[key] for key in ("mean", "ci95")} for count, cell in scores.items()}

    names = {"with_symmetry": "by_support", "without_symmetry": "without_symmetry"}
    return {"scores": {name: means(result[key]) for name, key in names.items()}}


def _certified(opened: Run, read: SymmetryReport, *, asked: bool) -> SymmetryReport:
    """The report, with its certificate where the run has one and the errors of the group that was asked about."""
    import dataclasses

    report = getattr(opened, "symmetry", None)
    if report is None:
        return read
    if len(report) != len(read):
        raise MetasymError(
            f"{opened.name}: expected a report on {len(read)} layers in its result, found one on {len(report)}",
            about=f"{opened.name}: layers",
            found=len(report),
        )
    layers = [
        dataclasses.replace(stored, errors=layer.errors) if asked else stored
        for stored, layer in zip(report, read, strict=True)
    ]
    return dataclasses.replace(read, layers=tuple(layers))


def _project(
    folder: Path, opened: Run, group: str | None, shape: tuple[int, ...] | None
) -> tuple[SymmetryReport, dict[str, Any]]:
    """Snap U to the pattern that was found; the report on it, and what became of the score."""
    from metasym.inspection import inspect, project
    from metasym.training.checkpoint import save

    model = opened.learner.model
    before = opened.score()
    done = project(model, inspect(model))
    after = opened.score()
    path = folder / PROJECTED
    save(opened.learner, path)
    projected = inspect(model, group, inputs=shape)
    return projected, {
        "metric": after.metric,
        "before": before.mean,
        "after": after.mean,
        "change": (after.mean - before.mean) / abs(before.mean) if before.mean else None,
        "test_tasks": len(after.per_task),
        "file": str(path),
        "layers": [
            {"name": one.name, "projected": one.projected, "change": one.change, "reason": one.reason}
            for one in done
        ],
    }


def show(report: SymmetryReport) -> None:
    """The report as a table and sentences."""
    from rich.table import Table

    from metasym.verdicts.answer_words import answer_words
    from metasym.verdicts.group_words import tasks_share
    from metasym.verdicts.layer_words import verdict_words

    table = Table(title="What was learned", title_justify="left")
    numbers = ("filter entries used", "tied", "zero", "residual", "margin")
    for column in ("layer", "weight", *numbers, "group", "order"):
        table.add_column(column, justify="left" if column in ("layer", "weight", "group") else "right")
    for layer in report:
        table.add_row(*_row(layer))
    out = console()
    out.print(table)
    for layer in report:
        values = ", ".join(f"{v:.3g}" for v in layer.singular_values[: layer.effective_filter_size + 1][:16])
        lines = [f"{layer.name or 'the layer'}: {verdict_words(layer)}."]
        if layer.group is not None:
            lines.append("  " + tasks_share(layer))
        lines.append(f"  singular values of U: {values}{', ...' if len(layer.singular_values) > 16 else ''}")
        lines += [f"  note: {note}" for note in layer.notes]
        if layer.group is not None:
            lines += [f"  generator: {_generator(g, layer)}" for g in layer.group.generators[:4]]
            if len(layer.group.generators) > 4:
                lines.append(f"  ... and {len(layer.group.generators) - 4} more generators (--json has all)")
        lines += _ladder(layer)
        lines += [] if layer.answer is None else [f"  {answer_words(layer)}."]
        if layer.errors is not None:
            lines += _errors(layer.errors)
        out.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if report.end_to_end is not None:
        text = "\n".join(["input to output:", *_errors(report.end_to_end)])
        out.print(text, highlight=False, markup=False, soft_wrap=True)


def _row(layer: LayerReport) -> list[str]:
    from metasym.verdicts.layer_words import summary_words

    pattern, group = layer.pattern, layer.group
    clear = pattern is not None and pattern.clear
    return [
        layer.name or "(the model)",
        "x".join(map(str, layer.weight_shape)),
        f"{layer.effective_filter_size} of {layer.filter_size}",
        str(pattern.tied) if pattern is not None and clear else "-",
        str(pattern.zeros) if pattern is not None and clear else "-",
        "-" if pattern is None else f"{pattern.residual:.2g}",
        "-" if pattern is None else f"{pattern.margin:.3g}",
        summary_words(layer),
        group.order_in_words if group is not None else "-",
    ]


def _ladder(layer: LayerReport) -> list[str]:
    """Every group that was tested on fresh tasks, one line for each."""
    from metasym.verdicts.layer_words import unnamed

    lines = []
    for rung in layer.ladder:
        order = "" if rung.name == unnamed(rung.order) else f" (order {rung.order})"
        at_most = "any defect possible" if rung.defect_upper is None else f"at most {rung.defect_upper:.3g}"
        by_class = (
            "" if rung.class_defect_upper is None else f", by class at most {rung.class_defect_upper:.3g}"
        )
        said = "certified" if rung.certified else "refuted" if rung.refuted else "not certified"
        lines.append(f"  {said}: {rung.name}{order}, defect {rung.defect:.3g}, {at_most} at 95 %{by_class}")
    return lines


def _generator(g: SignedPermutation, layer: LayerReport) -> str:
    from metasym.verdicts.group_words import element_words

    if g.transform:
        return f"{g.transform}, output channels to {list(g.outputs)}"
    return element_words(g, layer.input_names, layer.output_names)


def _errors(errors: GroupErrors) -> list[str]:
    """A bar for each element, and the angles."""
    if not errors.errors:
        return [f"  {errors.note}"]
    shown = list(zip(errors.elements, errors.errors, strict=True))[:32]
    width = max(len(name) for name, _ in shown)
    lines = [f"  equivariance error for {errors.group} (0 exact, 1.41 unrelated):"]
    for name, error in shown:
        bar = "█" * round(_BAR * min(error, 1.5) / 1.5)
        lines.append(f"    {name:<{width}} {error:9.2e} {bar}")
    if len(errors.errors) > len(shown):
        lines.append(
            f"    ... and {len(errors.errors) - len(shown)} more elements, at most {max(errors.errors):.2e}"
        )
    if errors.angles:
        lines.append(
            f"  principal angles between the dominant eigenspace and its {errors.dimension} equivariant maps: "
            f"{min(errors.angles):.2g} to {max(errors.angles):.2g} degrees"
        )
    return lines + ([f"  note: {errors.note}"] if errors.note else [])


def _show_projection(projection: dict[str, Any]) -> None:
    for layer in projection["layers"]:
        name = layer["name"] or "the layer"
        what = (
            f"U changed by {layer['change']:.2%}"
            if layer["projected"]
            else f"not projected ({layer['reason']})"
        )
        print(f"{name}: {what}")
    change = "" if projection["change"] is None else f" ({projection['change']:+.2%})"
    print(
        f"projected: {projection['metric']} on {projection['test_tasks']} test tasks "
        f"{projection['before']:.6g} before, {projection['after']:.6g} after{change}"
    )
    print(projection["file"])
