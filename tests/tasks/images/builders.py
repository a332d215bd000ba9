"""Small data sets in the layouts of the real ones, and what the tests of their faults share."""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metasym.cli import main
from tests.refusals import refused_command

# The packages export functions of the same names.
omniglot_module = importlib.import_module("metasym.tasks.images.omniglot")
mini_module = importlib.import_module("metasym.tasks.images.mini_imagenet")

SHARED = Path("/work/shared/data")
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data sets are not on this machine")

BACKGROUND = {"Latin": 2, "Greek": 2}
EVALUATION = {"Avesta": 1, "Tengwar": 1}
DRAWERS = 3


def strokes(alphabet: str, character: int, drawer: int) -> np.ndarray:
    """``[105, 105]``, bool: a few thick lines of ink, different for every image."""
    rng = np.random.default_rng([*alphabet.encode(), character, drawer])
    ink = np.zeros((105, 105), bool)
    for row, column in rng.integers(5, 80, (4, 2)):
        ink[row : row + 4, column : column + 20] = True
        ink[column : column + 20, row : row + 3] = True
    return ink


def png(ink: np.ndarray) -> bytes:
    """As Omniglot has them: black ink on white, one bit a pixel."""
    file = io.BytesIO()
    Image.fromarray(~ink).save(file, "PNG")
    return file.getvalue()


def characters(part: str) -> Iterable[tuple[str, bytes]]:
    """``(path inside the part, bytes)`` of every image, in no particular order."""
    number = 0 if part == "images_background" else 500
    for alphabet, count in (BACKGROUND if part == "images_background" else EVALUATION).items():
        for character in range(1, count + 1):
            number += 1
            for drawer in (2, 1, 3):
                name = f"{alphabet}/character{character:02d}/{number:04d}_{drawer:02d}.png"
                yield name, png(strokes(alphabet, character, drawer))


def write_zip(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def write_zips(folder: Path) -> Path:
    for part in omniglot_module.PARTS:
        write_zip(folder / f"{part}.zip", [(f"{part}/{name}", data) for name, data in characters(part)])
    return folder


def write_tree(folder: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    for name, data in members:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_npz(path: Path) -> Path:
    rows, names, alphabets = [], [], []
    labels, drawers, of = [], [], []
    for alphabet, count in {**BACKGROUND, **EVALUATION}.items():
        alphabets.append(alphabet)
        for character in range(1, count + 1):
            for drawer in range(1, DRAWERS + 1):
                rows.append(np.packbits(strokes(alphabet, character, drawer)))
                labels.append(len(names))
                drawers.append(drawer)
            names.append(f"character{character:02d}")
            of.append(len(alphabets) - 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        images_packed=np.stack(rows),
        height=np.int64(105),
        width=np.int64(105),
        character=np.array(labels, np.int16),
        drawer=np.array(drawers, np.uint8),
        character_alphabet=np.array(of, np.int16),
        character_name=np.array(names),
        alphabet_name=np.array(alphabets),
    )
    return path


@pytest.fixture
def small_omniglot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An Omniglot of six characters is taken for the whole one; the folder to work in."""
    monkeypatch.setattr(omniglot_module, "CHARACTERS", 6)
    monkeypatch.setattr(omniglot_module, "DRAWERS", DRAWERS)
    monkeypatch.setattr(omniglot_module, "SIZES", (3, 1, 2))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("METASYM_DATA", raising=False)
    return tmp_path


ANY = ...
"""What was found may be anything: the words of another package, a path."""


def refused_data(arguments: Sequence[object], about: str, found: object = ANY) -> None:
    """The command line refuses in one line, about a file or a part of one whose name ends so."""
    error = refused_command([*arguments, "--progress", "silent"])
    assert error.about is not None
    assert error.about.endswith(about), error.about
    assert found is ANY or error.found == found, error.found


def accepted(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command line, which must succeed; returns what it prints."""
    status = main([str(argument) for argument in (*arguments, "--progress", "silent")])
    said = capsys.readouterr()
    assert status == 0, said.err
    return said.out


def left_over(folder: Path) -> list[str]:
    """Files that a conversion which failed must not leave."""
    return [p.name for p in folder.rglob("*") if p.name.endswith((".images", ".tmp"))]
