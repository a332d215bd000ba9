"""``metasym angles``: how trained runs of Table 3 treat turned and flipped query images."""

from __future__ import annotations

import argparse
from pathlib import Path

from metasym.cli.common import Commands, console, say, write_text


def add(commands: Commands) -> None:
    """The command's flags."""
    parser = commands.add_parser(
        "angles",
        help="how the accuracy of trained runs falls with the angle of the query images",
        description=(
            "Test trained runs of Table 3 on query images as they are, augmented as in training, and turned by "
            "0 to 180 degrees with and without flips; support images stay as they are. Writes a JSON file for each "
            "run, a table and a figure for each problem. Given such a file in place of a run, it takes what was "
            "measured from there."
        ),
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs, or files of this command"
    )
    parser.add_argument("--tasks", type=int, default=200, help="test tasks of each run (default: 200)")
    parser.add_argument("--data", help="folder of the images, if another than in training")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for the figures, and for the files in its folder angles",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    parser.set_defaults(command=_angles)


def _angles(options: argparse.Namespace) -> None:
    from metasym.report.angle_figure import angles_figures, angles_table
    from metasym.runs.reproducing.angle_study import angles_file, check_names, measure_angles, read_angles
    from metasym.storage.atomic import make_folder
    from metasym.types import MetasymError

    if options.tasks < 2:
        raise MetasymError(
            f"expected --tasks of at least 2, found {options.tasks}", about="--tasks", found=options.tasks
        )
    for run in options.runs:
        if not run.exists():
            raise MetasymError(
                f"{run}: expected the folder of a finished run, or a file of this command, found nothing there",
                about=str(run),
            )
    read = {run: read_angles(run) for run in options.runs if run.is_file()}
    check_names([run for run in options.runs if run not in read])
    make_folder(options.out)
    measured = []
    for folder in options.runs:
        if folder in read:
            measured.append(read[folder])
            continue

        def note(done: int, of: int, folder: Path = folder) -> None:
            if done == of or done % 25 == 0:
                say(f"{folder}: {done} of {of} tasks")

        found = measure_angles(folder, tasks=options.tasks, data=options.data, note=note)
        print(angles_file(found, options.out))
        measured.append(found)
    table = angles_table(measured)
    console().print(table)
    for path in angles_figures(measured, options.out):
        print(path)
    if options.markdown is not None:
        write_text(options.markdown, table.markdown())
        print(options.markdown)
