"""``metasym mirror``: the mirrors and turns of a robot, and tables of them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metasym.cli.common import Commands, console
from metasym.types import MetasymError

if TYPE_CHECKING:
    from metasym.robots import RobotSymmetries

_MORE = """\
The search covers signed permutations of the joints, about a rest pose, that map the robot to itself while its base is
mirrored or turned. Candidates come from the axes of the joints. Each claim is tested on the joint inertia at fresh
postures. Joint limits are compared too.

--observation names the parts of a policy's observation in their order: ang_vel, lin_vel, gravity (vectors in the
base's frame), command (forward, sideways, yaw rate), joint_pos, joint_vel, actions, torques, keep:N (N numbers that
stay as they are). joint_pos is relative to a posture that the mirror keeps, unless --absolute is given.

--check takes a table as JSON: a list of {"joint", "image", "sign"}, or {"joint": "image" or "-image"}; or
morpho-symm's permutation_Q_js and reflection_Q_js in YAML. The exit status is 1 if the table is wrong.
"""


def add(commands: Commands) -> None:
    """The command's flags."""
    parser = commands.add_parser(
        "mirror",
        help="find, check and write down the mirror table of a robot",
        description="Find the mirrors and turns of a robot: which joint goes to which, with which sign.",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("robot", type=Path, metavar="ROBOT", help="URDF, or MuJoCo's XML (extra robots)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="all that was found, for programs")
    form.add_argument("--yaml", action="store_true", help="the tables in morpho-symm's form")
    form.add_argument(
        "--python", action="store_true", help="a function that mirrors observations and actions"
    )
    form.add_argument("--check", type=Path, metavar="TABLE", help="verify TABLE; list wrong entries")
    parser.add_argument("--observation", metavar="A,B,...", help="with --python: the observation's parts")
    parser.add_argument(
        "--joints", metavar="A,B,...", help="with --python: the policy's joints in their order"
    )
    parser.add_argument(
        "--absolute", action="store_true", help="with --python: joint_pos is as the file counts"
    )
    parser.add_argument("--generator", type=int, default=0, metavar="N", help="with --python: which one (0)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page with a drawing")
    parser.add_argument(
        "--base", choices=("free", "standing"), help="whether the base moves (default: by the file)"
    )
    parser.add_argument(
        "--tolerance", type=float, metavar="X", help="largest defect that is certified (0.01)"
    )
    parser.add_argument(
        "--no-limits", dest="limits", action="store_false", help="do not compare joint limits"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed for random postures (default 0)"
    )
    parser.set_defaults(command=_mirror)


def _mirror(options: argparse.Namespace) -> None:
    from metasym.report.mirror_page import write_mirror_page
    from metasym.robots import mirror, observation_code, to_yaml

    if options.python != (options.observation is not None):
        raise MetasymError(
            "expected --python and --observation together, found one alone",
            about="--python, --observation",
            found="one alone",
        )
    for flag, given in (("--joints", options.joints), ("--absolute", options.absolute)):
        if given and not options.python:
            raise MetasymError(
                f"expected {flag} only with --python, found it alone", about=flag, found="alone"
            )
    wishes = {"tolerance": options.tolerance} if options.tolerance is not None else {}
    floating = None if options.base is None else options.base == "free"
    found = mirror(options.robot, floating=floating, limits=options.limits, seed=options.seed, **wishes)
    if options.page is not None:
        write_mirror_page(found, options.page)
    if options.json:
        print(json.dumps(found.as_dict(), indent=1))
    elif options.yaml:
        print(to_yaml(found), end="")
    elif options.python:
        layout, joints = _words(options.observation), _words(options.joints or "")
        source = observation_code(
            found, layout, joints=joints, generator=options.generator, absolute=options.absolute
        )
        print(source, end="")
    elif options.check is not None:
        _check(found, options.check)
    else:
        _summary(found, options.page)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _summary(found: RobotSymmetries, page: Path | None) -> None:
    from rich.table import Table

    from metasym.robots.mirror_words import (
        about_robot,
        breaking_words,
        evidence_words,
        refused_words,
        verdict_words,
    )

    out = console()

    def line(text: str) -> None:
        out.print(text, highlight=False, markup=False, soft_wrap=True)

    line(about_robot(found))
    line(f"Verdict: {verdict_words(found)}")
    for g in found.generators:
        line(f"  {evidence_words(found, g)}.")
        for one in breaking_words(g):
            line(f"    what breaks it: {one}")
    for text in refused_words(found):
        line(f"  not claimed, {text}")
    if found.generators:
        table = Table(title="Each joint's image, with its sign", title_justify="left")
        table.add_column("joint")
        for g in found.generators:
            table.add_column(g.base)
        centred = bool(found.centre.any())
        if centred:
            table.add_column("centre", justify="right")
        rows = [g.table(found.names) for g in found.generators]
        for i, name in enumerate(found.names):
            cells = [f"{'−' if r[i]['sign'] < 0 else '+'}{r[i]['image']}" for r in rows]
            table.add_row(name, *cells, *([f"{found.centre[i]:.4g}"] if centred else []))
        out.print(table, highlight=False, markup=False)
    for note in found.mechanism.notes:
        line(f"Note: {note}.")
    if page is not None:
        line(f"Saved: {page}")


def _check(found: RobotSymmetries, path: Path) -> None:
    from metasym.robots import check_table, read_tables
    from metasym.robots.mirror_words import check_words, refusal_words

    wrong = False
    tables = read_tables(path, found.names)
    for number, table in enumerate(tables):
        check = check_table(found, table)
        wrong |= not check.right
        which = f" {number}" if len(tables) > 1 else ""
        print(f"Table{which}: {check_words(check)}.")
        for one in check.wrong:
            print(f"  {one.text}")
        if check.wrong:
            continue
        for text in [*([refusal_words(check)] if check.refused else []), *(one.text for one in check.breaks)]:
            print(f"  what breaks it: {text}")
    if wrong:
        sys.stdout.flush()
        sys.exit(1)
