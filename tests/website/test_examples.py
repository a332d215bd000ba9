"""Every example runs, quickly, and its page was made from the script as it is now."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from website.gallery import EXAMPLES, PAGES, Example, read

from tests.tasks.images.builders import SHARED

NEEDS = {"simulators": ("gymnasium", "mujoco", "rebound"), "onnx": ("onnx", "onnxruntime", "onnxscript")}
"""What an example's extras bring; where it is not installed the example is skipped, and the reason names it."""

WITH_OMNIGLOT = {"few_shot_images"}
"""Examples on images, which are not in the repository."""

SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    for extra in read(script).extras:
        for module in NEEDS[extra]:
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"{script.stem} needs the extra {extra}: {module} is not installed")
    images = {}
    if script.stem in WITH_OMNIGLOT:
        if not SHARED.is_dir():
            pytest.skip("Omniglot is not on this machine")
        images = {"METASYM_DATA": str(SHARED)}
    environment = {**os.environ, "QUICK": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", **images}
    found = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:__main__", str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_page_was_made_from_the_script_as_it_is(script: Path) -> None:
    page = PAGES / f"{script.stem}.md"
    assert page.exists(), f"run: make gallery EXAMPLE={script.stem}"
    assert f"made from {read(script).digest}" in page.read_text(encoding="utf-8"), "run: make gallery"


def test_an_example_is_read_in_parts(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(
        '"""Title\n\nAbout.\n\nExtras: onnx\n"""\n\n# %%\n# Text\n# more\nx = 1\n\n# %%\nprint(x)\n'
    )
    found = read(script)
    assert isinstance(found, Example)
    assert (found.title, found.about, found.extras) == ("Title", "About.", ("onnx",))
    assert [(part.text, part.code) for part in found.parts] == [("Text\nmore", "x = 1"), ("", "print(x)")]
