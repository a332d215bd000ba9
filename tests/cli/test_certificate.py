"""A certificate as typed: in the user's names, as JSON, and on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import metasym as ms
from metasym.cli import main
from metasym.verdicts.layer_words import summary_words, verdict_words
from metasym.verdicts.verdict import InputsNeverVary, NothingNear, Status
from tests.evidence.families import examples, generic, shifted

N = 5
LEGS = [f"leg {i + 1}" for i in range(N)]
FEET = [f"foot {i + 1}" for i in range(N)]
NAMES = ["--input-names", ",".join(LEGS), "--output-names", ",".join(FEET)]
QUICK = ["--no-baseline", "--progress", "silent"]


def typed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(a) for a in arguments]) == 0
    return capsys.readouterr().out


def stored(folder: Path, maps, noise: float = 0.02, **names) -> Path:
    x, y = examples(maps, 12, noise)
    np.savez(folder / "tasks.npz", x=x.numpy(), y=y.numpy(), **names)
    return folder / "tasks.npz"


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on circulant tasks whose inputs are called legs and whose outputs feet."""
    folder = tmp_path_factory.mktemp("robot")
    tasks = stored(folder, shifted(100, N))
    assert main(["learn", str(tasks), "--out", str(folder / "run"), *NAMES, *QUICK]) == 0
    return folder / "run"


def test_generators_are_told_in_the_users_words(robot, capsys):
    shown = typed(capsys, "inspect", robot)
    ring = " to ".join([*LEGS, LEGS[0]])
    back = " to ".join([LEGS[0], *LEGS[:0:-1], LEGS[0]])
    assert f"inputs: takes {ring}" in shown or f"inputs: takes {back}" in shown
    (layer,) = ms.open_run(robot).symmetry
    assert (layer.group.name, layer.group.order) == ("Z_5", 5)
    assert verdict_words(layer) in shown
    assert "with U averaged over the symmetry and " in shown


def test_the_json_has_the_ladder_the_bound_and_the_scores(robot, capsys):
    found = json.loads(typed(capsys, "inspect", robot, "--json"))
    (layer,) = found["layers"]
    assert (layer["group"]["name"], layer["group"]["order"]) == ("Z_5", 5)
    assert 0 < layer["group"]["defect_upper"] < 0.05
    (rung,) = [rung for rung in layer["ladder"] if rung["certified"]]
    assert {"name", "order", "defect", "defect_upper", "refuted"} <= set(rung)
    assert rung["defect_upper"] == layer["group"]["defect_upper"]
    assert not rung["refuted"]
    assert layer["input_names"] == LEGS
    assert layer["output_names"] == FEET
    counts = {frozenset(scores) for scores in found["scores"].values()}
    assert len(counts) == 1  # with and without, from the same numbers of examples


def test_a_loaded_run_carries_certificate_and_names(robot):
    (layer,) = ms.open_run(robot).symmetry
    assert layer.group is not None
    assert layer.group.defect_upper is not None
    assert layer.ladder
    assert list(layer.input_names) == LEGS


def test_the_page_shows_ladder_names_and_what_it_buys(robot, tmp_path, capsys):
    page = tmp_path / "page.html"
    typed(capsys, "report", robot, "--out", page)
    text = page.read_text()
    assert "Groups tested on held-out tasks" in text
    assert "U as learned, not averaged" in text
    assert "leg 1" in text
    assert "foot 5" in text


def test_names_in_the_file_do_as_well(tmp_path, capsys):
    tasks = stored(tmp_path, shifted(60, N), input_names=np.array(LEGS), output_names=np.array(FEET))
    typed(capsys, "learn", tasks, "--out", tmp_path / "run", *QUICK)
    assert "takes leg 1 to leg" in typed(capsys, "inspect", tmp_path / "run")


def test_a_larger_group_that_nearly_holds_is_on_the_ladder_refuted(tmp_path, capsys):
    even = (shifted(100, N) + shifted(100, N).mT) / 2
    odd = shifted(100, N, 7) - shifted(100, N, 7).mT
    typed(capsys, "learn", stored(tmp_path, even + 0.05 * odd, 0.0), "--out", tmp_path / "run", *QUICK)
    (layer,) = json.loads(typed(capsys, "inspect", tmp_path / "run", "--json"))["layers"]
    above = {rung["name"]: rung for rung in layer["ladder"]}["D_5"]
    assert above["refuted"]
    assert 0.02 < above["defect"] < 0.2
    assert layer["group"]["name"] == "Z_5"
    assert [r["name"] for r in layer["ladder"] if r["refuted"]] == ["D_5"]


def test_what_could_not_be_seen_is_undecided_everywhere(tmp_path, capsys):
    """Two equal inputs: nobody can know their weights, and nothing says that there is no symmetry."""
    x, _ = examples(generic(60, N), 12)
    x[..., 1] = x[..., 0]
    np.savez(tmp_path / "tasks.npz", x=x.numpy(), y=(x @ generic(60, N).mT).numpy())
    printed = typed(capsys, "learn", tmp_path / "tasks.npz", "--out", tmp_path / "run", *QUICK)
    (layer,) = ms.open_run(tmp_path / "run").symmetry
    assert layer.verdict.status is Status.UNDECIDED
    assert any(isinstance(reason, InputsNeverVary) for reason in layer.verdict.reasons)
    assert verdict_words(layer) in printed
    assert summary_words(layer) in typed(capsys, "inspect", tmp_path / "run")
    typed(capsys, "report", tmp_path / "run", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Whether the tasks share a symmetry is undecided." in page
    assert "No symmetry was found" not in page


def test_without_a_symmetry_nothing_is_called_one(tmp_path, capsys):
    """Every task a map of its own: terminal and page say the same, and what it excludes."""
    tasks, run, page = stored(tmp_path, generic(60, N)), tmp_path / "run", tmp_path / "page.html"
    printed = typed(capsys, "learn", tasks, "--out", run, "--outer-steps", "2", "--progress", "silent")
    (layer,) = ms.open_run(run).symmetry
    assert layer.verdict.status is Status.NONE
    assert [type(reason) for reason in layer.verdict.reasons] == [NothingNear]
    said = verdict_words(layer)
    assert said in printed
    typed(capsys, "report", run, "--out", page)
    text = page.read_text(encoding="utf-8")
    lead = re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)
    assert lead is not None
    assert said[1:] in lead[1]
    for shown in (printed, text):
        assert "learned U (MSR), no symmetry" in shown
        assert "symmetry learned (MSR)" not in shown
        assert "A symmetry that leaves few weights free can still be found" in shown
