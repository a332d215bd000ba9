from __future__ import annotations

import re
import tempfile

import pytest

from metasym.cli.demonstration import conclusion, demo


@pytest.mark.slow
def test_the_demo_shows_its_parts(tmp_path, capfd):
    parts = list(demo(tmp_path / "demo", outer_steps=3))
    text = "\n".join(str(part) for part in parts)
    assert "    0  1\n    1  0" in text
    assert "equivariance error" in text
    assert "Found: U uses" in text
    assert "it has not learned to convolve" in text  # three steps are too few: nothing may be claimed
    assert len(list((tmp_path / "demo").glob("*.png"))) == 3
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "Submatrices of U" in page
    assert tempfile.gettempdir() not in re.sub(r"base64,[^\"]*", "", page)  # the runs' folder is gone by now


@pytest.mark.parametrize(("distance", "told"), [(0.02, True), (0.1, True), (0.11, False), (0.95, False)])
def test_the_demo_claims_a_convolution_only_near_one(distance, told):
    assert (conclusion(distance) == "it has learned to convolve") == told
