"""Every example runs, quickly, and its page was made from the script as it is now."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from website.gallery import EXAMPLES, PAGES, WIDTH, Example, _as_shown, read

from metasym.tasks.images.omniglot import CHARACTERS, DRAWERS, NPZ
from tests import forked

NEEDS = {"simulators": ("gymnasium", "mujoco", "rebound"), "onnx": ("onnx", "onnxruntime", "onnxscript")}
"""What an example's extras bring; where it is not installed the example is skipped, and the reason names it."""

WITH_OMNIGLOT = {"few_shot_images"}
"""Examples on images, which are not in the repository: the tests draw characters in their place."""

SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def draw_characters(folder: Path) -> None:
    """As many characters as Omniglot has, each of 12 random points that every drawer moves by one at most."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    places = draw.integers(2, 26, (CHARACTERS, 1, 12, 2)) + draw.integers(-1, 2, (CHARACTERS, DRAWERS, 12, 2))
    row, column = places.reshape(-1, 12, 2).transpose(2, 0, 1)
    ink = np.zeros((len(row), 28, 28), bool)
    ink[np.arange(len(row))[:, None], row, column] = True
    np.savez(
        folder / NPZ,
        images_packed=np.packbits(ink.reshape(len(ink), -1), axis=1),
        height=np.int64(28),
        width=np.int64(28),
        character=np.repeat(np.arange(CHARACTERS), DRAWERS),
        drawer=np.tile(np.arange(1, DRAWERS + 1), CHARACTERS),
        character_alphabet=np.zeros(CHARACTERS, np.int64),
        character_name=np.array([f"character{i:04d}" for i in range(CHARACTERS)]),
        alphabet_name=np.array(["Drawn"]),
    )


def warnings_are_errors() -> None:
    """Those of an example's own lines; other packages' are theirs."""
    warnings.filterwarnings("error", category=UserWarning, module="__main__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    for extra in read(script).extras:
        for module in NEEDS[extra]:
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"{script.stem} needs the extra {extra}: {module} is not installed")
    images = {}
    if script.stem in WITH_OMNIGLOT:
        draw_characters(tmp_path / "images")
        images = {"METASYM_DATA": str(tmp_path / "images")}
    environment = {**os.environ, "QUICK": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", **images}
    found = forked.run([str(script)], cwd=tmp_path, env=environment, timeout=600, first=warnings_are_errors)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_page_was_made_from_the_script_as_it_is(script: Path) -> None:
    page = PAGES / f"{script.stem}.md"
    assert page.exists(), f"run: make gallery EXAMPLE={script.stem}"
    assert f"made from {read(script).digest}" in page.read_text(encoding="utf-8"), "run: make gallery"


def test_long_lines_of_output_are_broken_between_words() -> None:
    table, sentence = "┃ " + "─" * (WIDTH - 3) + "┃", "    indented " + "word " * 40
    shown = _as_shown(f"{table}\n\n{sentence}\nshort  line\n").splitlines()
    assert shown[:2] == [table, ""]
    assert shown[-1] == "short  line"
    assert all(len(line) <= WIDTH for line in shown)
    assert " ".join(" ".join(shown[2:-1]).split()) == " ".join(sentence.split())


def test_an_example_is_read_in_parts(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(
        '"""Title\n\nAbout.\n\nExtras: onnx\n"""\n\n# %%\n# Text\n# more\nx = 1\n\n# %%\nprint(x)\n'
    )
    found = read(script)
    assert isinstance(found, Example)
    assert (found.title, found.about, found.extras) == ("Title", "About.", ("onnx",))
    assert [(part.text, part.code) for part in found.parts] == [("Text\nmore", "x = 1"), ("", "print(x)")]
