"""``metasym data``: fetch a data set, or convert what the user has."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path

from metasym.cli.common import PROGRESS, Commands, say
from metasym.tasks.images.cache import data_folder, expanded, read_index
from metasym.tasks.images.decode import check_size
from metasym.tasks.images.mini_imagenet import SIZES as MINI_SIZES
from metasym.tasks.images.mini_imagenet import data_set as mini_data_set
from metasym.tasks.images.omniglot import SIZES, URL, data_set, fetch, lacks_zip
from metasym.tasks.images.prepare import DataSet, Prepared, existing, is_sound, prepare, source_at
from metasym.tasks.images.sources import Source
from metasym.types import MetasymError

_WHERE = "folder for the data (default: the environment's METASYM_DATA, else ~/.cache/metasym)"


def add(commands: Commands) -> None:
    """The command's flags."""
    data = commands.add_parser(
        "data",
        help="fetch a data set, or convert files that you have",
        description=(
            "Make the images of a data set ready: converted once into one file, which every run maps into memory. "
            "Nothing is done if that file is there and sound."
        ),
    )
    sets = data.add_subparsers(required=True, metavar="DATASET")
    omniglot = sets.add_parser(
        "omniglot",
        help="Omniglot: downloaded (16 MB), or from zips, folders or an npz",
        description=(
            "Convert Omniglot from what is in the folder for the data or at --from; without either, download the "
            "two official zips first (checked; an interrupted download continues where it stopped)."
        ),
    )
    omniglot.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="PATH",
        help="images_background.zip or images_evaluation.zip (the other next to it), a folder with them or with "
        "their contents (as torchvision and learn2learn keep them too), or omniglot.npz",
    )
    omniglot.add_argument("--url", help="download from this address, a mirror's, instead of GitHub's")
    omniglot.add_argument("--size", type=int, default=28, help="pixels per side (default: 28)")
    _common(omniglot)
    omniglot.set_defaults(command=_omniglot)

    mini = sets.add_parser(
        "miniimagenet",
        help="MiniImagenet, from images that you have",
        description=(
            "Convert MiniImagenet. It cannot be downloaded freely: give a folder with its images and the lists of "
            "Ravi and Larochelle, or folders train, val and test of class folders, or mini_imagenet.npz."
        ),
    )
    mini.add_argument(
        "--from", dest="source", type=Path, metavar="PATH", help="the folder of images, or the .npz"
    )
    mini.add_argument(
        "--splits",
        type=Path,
        metavar="PATH",
        help="folder or zip with train.csv, val.csv and test.csv, if they are not with the images",
    )
    mini.add_argument("--size", type=int, default=84, help="pixels per side (default: 84)")
    _common(mini)
    mini.set_defaults(command=_mini_imagenet)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help=_WHERE)
    parser.add_argument(
        "--again",
        action="store_true",
        help="convert even if that has been done; without --from, from where it was converted last time if that is "
        "still there",
    )
    parser.add_argument("--progress", choices=PROGRESS, default="auto", help="how to show progress")


def _omniglot(options: argparse.Namespace) -> None:
    check_size(options.size)
    if options.url is not None and options.source is not None:
        raise MetasymError("expected --from or --url, found both", about="--from, --url", found="both")
    data, folder = data_set(options.size), data_folder(options.data)

    def download() -> None:
        if lacks_zip(folder):
            fetch(folder, url=options.url or URL, progress=_shown(options.progress, "downloading", "bytes"))

    counts = dict(zip(("training", "validation", "test"), SIZES, strict=True))
    _make(options, data, folder, counts, download, recall=options.url is None)


def _mini_imagenet(options: argparse.Namespace) -> None:
    check_size(options.size)
    if options.splits is not None and not options.splits.exists():
        raise MetasymError(
            f"{options.splits}: expected a folder or zip with the split lists, found none",
            about=str(options.splits),
        )
    counts = dict(zip(("training", "validation", "test"), MINI_SIZES.values(), strict=True))
    data = mini_data_set(options.size, options.splits)
    _make(options, data, data_folder(options.data), counts, lambda: None)


def _make(
    options: argparse.Namespace,
    data: DataSet,
    folder: Path,
    counts: dict[str, int],
    download: Callable[[], None],
    *,
    recall: bool = True,
) -> None:
    """Convert what was asked for, else what was converted before, else what is in ``folder`` after ``download()``."""
    began = time.perf_counter()
    there = existing(data, folder)
    asked = options.source is not None or data.lists is not None
    source: Source | None = None
    if asked:
        origin = folder if options.source is None else expanded(options.source)
        source = source_at(data, origin)
    if there is not None and not options.again and is_sound(there, source.text if source else None):
        found = Prepared(there, read_index(there), fresh=False)
        done = f"were there already, and are sound (converted from {found.index.source})"
    else:
        if source is None:
            data, origin, source = (_recalled(data, there) if recall else None) or _found(
                data, folder, download
            )
        found = prepare(
            data,
            folder,
            source,
            origin=origin,
            again=there is not None or options.again,
            exactly=asked,
            progress=_shown(options.progress, f"converting {source.text}", "images"),
        )
        done = f"converted from {found.index.source}"
        if found.fresh:
            done += f" in {time.perf_counter() - began:.0f} s"
        else:
            done += " by another process meanwhile"
    _tell(data, folder, found, counts, done)


def _recalled(data: DataSet, there: Path | None) -> tuple[DataSet, Path, Source] | None:
    """What the file ``there`` was converted from, if that still exists."""
    try:
        places = [] if there is None else [Path(place) for place in read_index(there).origin]
    except MetasymError:  # too damaged to tell
        places = []
    if not places or not all(place.exists() for place in places):
        return None
    data = dataclasses.replace(data, lists=places[1] if len(places) > 1 else None)
    try:
        source = data.find(places[0], data.lists)
    except MetasymError as error:
        raise MetasymError(
            f"{error}; the images were converted from there before: give another place with --from PATH",
            about=error.about,
            found=error.found,
        ) from None
    return None if source is None else (data, places[0], source)


def _found(data: DataSet, folder: Path, download: Callable[[], None]) -> tuple[DataSet, Path, Source]:
    download()
    return data, folder, source_at(data, folder)


def _tell(data: DataSet, folder: Path, found: Prepared, counts: dict[str, int], done: str) -> None:
    path, index = found.path, found.index
    parts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    print(
        f"{data.title}: {index.images:,} images of {index.shape[1]} x {index.shape[2]}, "
        f"{len(index.entries):,} classes ({parts}), {done}"
    )
    note = "" if path.parent == folder else f" ({folder} cannot be written to)"
    print(f"{path}: {path.stat().st_size / 1e6:,.1f} MB{note}")


def _shown(choice: str, what: str, unit: str) -> Callable[[int, int], None] | None:
    """On a terminal a line that is overwritten, elsewhere a line for each tenth."""
    if choice == "silent":
        return None
    live = choice == "auto" and sys.stderr.isatty()
    last = -1

    def show(done: int, total: int) -> None:
        nonlocal last
        part = 100 * done // max(total, 1)
        part = part if live else part // 10 * 10
        if part != last:
            last = part
            line = f"{what}: {done:,} of {total:,} {unit} ({100 * done // max(total, 1)} %)"
            if live:
                sys.stderr.write(f"\r{line}\x1b[K" + ("\n" if done >= total else ""))
                sys.stderr.flush()
            else:
                say(line)

    return show
