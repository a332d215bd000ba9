from __future__ import annotations

import html
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import metasym as ms
from metasym.cli import main
from metasym.report.page import render, write
from metasym.storage.file_names import CURRENT, MODEL
from metasym.types import MetasymError
from metasym.verdicts.group_words import found_words
from tests.refusals import refused, refused_command, within
from tests.report.page_runs import Document, copy, edit, make_run, train_into

CONV = "rotation/rot90/msr-conv"
HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>\'"&'


@pytest.fixture(scope="module")
def fc(tmp_path_factory):
    """A fully connected layer of 68 x 70: taking its U apart takes seconds."""
    folder = make_run(tmp_path_factory.mktemp("fc") / "run")
    return folder, render(folder).html


@pytest.fixture(scope="module")
def msr(tmp_path_factory):
    """A convolution of 12 filters: fast."""
    return make_run(tmp_path_factory.mktemp("msr") / "run", CONV, image_size=5)


@pytest.fixture(scope="module")
def maml(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("maml") / "run", "translation/rank1/small/maml-fc")


def page(folder: Path, **options) -> Document:
    return Document(render(folder, **options).html)


def titles(html: str) -> list[str]:
    return re.findall(r"<figure[^>]*>\s*<h\d>([^<]*)</h\d>", html)


def test_one_run_has_all_its_parts(fc):
    msr, html = fc
    found = Document(html)
    for title in ("Single tasks", "Weight matrix", "Singular values of U", "Submatrices of U"):
        assert title in titles(html)
    for title in ("Learning curves", "Step sizes", "Outer gradient"):
        assert title in titles(html)
    result = json.loads((msr / "result.json").read_text())
    assert f"{result['mean']:.2f}" in found.words
    assert "diverged tasks" in found.words
    assert "0 / 4" in found.words
    assert result["commit"] is None or result["commit"] in found.words  # an unpacked sdist has none
    assert result["versions"]["torch"] in found.words.replace("<wbr>", "")
    assert "filter_std" in found.words
    assert "metasym run translation/rank1/small/msr-fc" in found.words


def test_the_page_stands_alone(fc):
    _, html = fc
    assert not re.search(r"https?:|//[a-z]", re.sub(r"base64,[A-Za-z0-9+/=]+", "", html))
    found = Document(html)
    for tag, attributes in found.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            if attributes.get(name):
                assert attributes[name].startswith(("#", "data:")), (tag, attributes)
    assert "@import" not in html
    assert "url(" not in html
    (policy,) = [m["content"] for m in found.all("meta") if m.get("http-equiv")]
    assert "default-src 'none'" in policy


def test_it_can_be_used_without_a_mouse_or_eyes(msr, maml, tmp_path):
    copy(msr, tmp_path / "a")
    copy(maml, tmp_path / "b")
    for folder in (msr, tmp_path):
        found = page(folder)
        ids = [a["id"] for _, a in found.tags if a.get("id")]
        assert len(ids) == len(set(ids))
        for link in found.all("a"):
            assert link["href"][1:] in ids
        assert found.all("a")[0]["href"] == "#main"
        assert [len(found.all(tag)) for tag in ("main", "header", "footer", "nav", "h1")] == [1] * 5
        assert all(picture["alt"] for picture in found.all("img"))
        drawn = [s for s in found.all("svg") if s.get("aria-hidden") != "true"]
        assert drawn
        assert all(s["role"] == "img" and s["aria-label"] for s in drawn)
        assert len(found.all("caption")) == len(found.all("table"))
        assert len(found.all("figcaption")) == len(found.all("figure"))
        for region in (a for _, a in found.tags if a.get("role") == "region"):
            assert region["tabindex"] == "0"
            assert region["aria-label"]
        levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch(r"h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_hostile_names_are_text(msr, tmp_path):
    folder = copy(msr, tmp_path / "<b>bold</b>" / "<img src=x onerror=alert(3)>")
    edit(
        folder / "result.json",
        experiment=HOSTILE,
        problem=HOSTILE,
        method=HOSTILE,
        command=HOSTILE,
        commit=HOSTILE,
    )
    edit(folder / "result.json", versions={HOSTILE: HOSTILE}, metric=HOSTILE, inner_lrs={HOSTILE: 1.0})
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [{**json.loads(line), "step_sizes": {HOSTILE: 0.1, "b": 0.2}} for line in lines]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, HOSTILE: {HOSTILE: HOSTILE}}))
    copy(folder, tmp_path / "other" / HOSTILE.replace("/", "-"))
    for place in (folder, tmp_path):
        html = render(place).html
        found = Document(html)
        assert len(found.all("script")) == 1
        assert not found.all("b")
        assert not [a for a in found.all("img") if "onerror" in a]
        assert "onerror=alert(2)" in found.words


def test_a_folder_of_runs(msr, maml, tmp_path):
    copy(msr, tmp_path / "msr" / "seed0")
    make_run(tmp_path / "msr" / "seed1", CONV, image_size=5, seed=1)
    copy(maml, tmp_path / "maml")
    made = render(tmp_path)
    assert (made.runs, made.drawn, made.counted, made.faults) == (3, 3, "3 runs", [])
    found = Document(made.html)
    assert [d["id"] for d in found.all("details") if d.get("class") == "run"] == ["run-1", "run-2", "run-3"]
    assert {"Scores", "Learning curves", "Weight matrix", "Filters"} <= set(titles(made.html))
    assert "Over seeds" in found.words
    assert "0, 1" in found.words
    few = render(tmp_path, detail=1)
    assert few.drawn == 1
    assert "The first 1 of 3 runs are drawn" in Document(few.html).words
    assert len(few.html) < len(made.html)


def test_a_method_without_symmetry(maml):
    found = page(maml)
    assert "none: a plain layer" in found.words
    assert "Submatrices" not in found.words


@pytest.mark.parametrize("kind", ["kronecker", "dense", "maml", "protonet"])
def test_folders_of_plain_training(kind, tmp_path):
    html = render(train_into(tmp_path / "run", kind)).html
    found = Document(html)
    assert "trained for" in found.words
    if kind == "kronecker":
        assert {"Factor U_out", "Factor U_in", "Factor U_space", "Filters"} <= set(titles(html))
    if kind == "dense":
        assert "does not say which shape" in found.words
    if kind in ("maml", "protonet"):
        assert {"Filters", "Weight matrix"} <= set(titles(html))
        assert "none: a plain layer" in found.words
    assert ("No step sizes: this method" in found.words) == (kind == "protonet")


def learn_a_ring(folder, *flags):
    group = ms.groups.shifts(5)
    basis = ms.groups.equivariant_basis(group, group).numpy()
    W = (basis @ np.random.default_rng(0).normal(size=(5, 40))).T.reshape(40, 5, 5)
    x = np.random.default_rng(1).normal(size=(40, 12, 5))
    np.savez(folder / "tasks.npz", x=x, y=np.einsum("toi,tei->teo", W, x))
    flags = [*flags, "--progress", "silent"]
    assert main(["learn", str(folder / "tasks.npz"), "--out", str(folder / "run"), *flags]) == 0


def test_learning_at_once_needs_no_curve(tmp_path):
    learn_a_ring(tmp_path, "--no-baseline")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    words = page(tmp_path / "run").words
    assert "No training was recorded" not in words
    assert "U as learned, not averaged" in words
    rounds = json.loads((tmp_path / "run" / "result.json").read_text())["outer_steps"]
    assert f"rounds over all tasks{rounds} " in words


def test_many_runs_begin_with_what_was_found(msr, tmp_path):
    learn_a_ring(tmp_path, "--find-steps", "40", "--outer-steps", "40")
    copy(msr, tmp_path / "run" / "other")  # beside a run and its baseline
    made = render(tmp_path)
    assert made.counted == "2 runs and 1 baseline"
    (lead,) = re.findall(r'<section class="lead".*?</section>', made.html, re.DOTALL)
    assert made.html.index(lead) < made.html.index("<h2")
    (line,) = re.findall(r"<li>.*?</li>", lead)  # the other run has nothing to tell of
    assert 'href="#run-1"' in line
    (layer,) = ms.open_run(tmp_path / "run").symmetry
    assert layer.group.name == "Z_5"
    assert found_words(layer) in html.unescape(line)
    assert "The symmetry pays" in line


def test_a_run_of_learn_shows_both_methods(tmp_path):
    learn_a_ring(tmp_path, "--find-steps", "40", "--outer-steps", "40")
    made = render(tmp_path / "run")
    found = Document(made.html)
    assert (made.runs, made.counted, made.faults) == (2, "1 run and its baseline", [])
    assert [d["id"] for d in found.all("details") if d.get("class") == "run"] == ["run-2"]
    lead = re.search(r'<p class="lead">(.*?)</p>', made.html, re.DOTALL)[1]
    (layer,) = ms.open_run(tmp_path / "run").symmetry
    assert layer.group.name == "Z_5"
    assert found_words(layer) in html.unescape(lead)
    assert "The symmetry pays" in lead
    for method in ("symmetry learned (MSR)", "same network, plain (MAML)"):
        assert method in found.words
    assert made.html.index('class="lead"') < made.html.index("<h2")
    assert "First stage: finding the filter's size" in titles(html.unescape(made.html))
    assert "By the number of support examples" in found.words
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    verdict = result["symmetry"]["layers"][0]["verdict"]["words"]
    assert verdict[1:] in found.words
    (tmp_path / "run" / "result.json").unlink()  # killed before its end: what there is is shown
    words = page(tmp_path / "run").words
    assert "unfinished, at step" in words


def test_filters_of_a_convolution(msr):
    html = render(msr).html
    assert "Filters" in titles(html)
    assert "all 12." in Document(html).words


def test_an_unfinished_run_says_so(msr, tmp_path):
    folder = copy(msr, tmp_path / "run")
    (folder / "result.json").unlink()
    text = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(text[:4]) + text[4][:30])
    words = page(folder).words
    assert "unfinished, at step 4 of 6" in words
    assert "is incomplete and was ignored" in words
    (folder / "metrics.jsonl").unlink()
    (folder / CURRENT).unlink()
    (folder / MODEL).unlink()
    words = page(folder).words
    assert "unfinished, no step recorded" in words
    assert "There is no checkpoint here" in words


def test_numbers_that_are_not_finite(msr, tmp_path):
    folder = copy(msr, tmp_path / "run")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    records[1].update(outer_loss=None, gradient_norm=None)
    records[2].update(outer_loss=float("inf"), step_sizes={"parametrizations.weight.original": float("nan")})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    edit(folder / "result.json", mean=None, ci95=None, per_task=[None, 1.0, 2.0, None], diverged=2)
    html = render(folder).html
    words = Document(html).words
    assert "2 outer steps had a loss of NaN or infinity" in words
    assert "mse not finite" in words
    assert "2 / 4" in words
    assert not re.search(r'[\s"](nan|inf)[\s"]', "".join(re.findall(r"<svg.*?</svg>", html)))


def test_a_run_that_only_knows_nan(msr, tmp_path):
    folder = copy(msr, tmp_path / "run")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    dead = {"outer_loss": None, "inner_loss_before": None, "inner_loss_after": None, "gradient_norm": None}
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps({**r, **dead, "step_sizes": {}}) + "\n" for r in records)
    )
    edit(folder / "result.json", mean=None, ci95=None, median=None, per_task=[None, None], diverged=2)
    html = render(folder).html
    assert "Learning curves" not in titles(html)
    assert "6 outer steps had a loss of NaN" in Document(html).words


DAMAGE = {
    "config.json": (b"{", ""),
    "result.json": (b"[1]", ""),
    "metrics.jsonl": (b'{"step": 1}\n\x00rubbish\n', "line 2"),
    MODEL: (b"rubbish", ""),
}


@pytest.mark.parametrize("file", DAMAGE)
def test_a_damaged_file_is_one_line_that_names_it(file, msr, maml, tmp_path, capsys):
    content, part = DAMAGE[file]
    folder = copy(msr, tmp_path / "runs" / "broken")
    (folder / file).write_bytes(content)
    message = str(refused_command(["report", folder], within(folder / file, part)))
    assert not (folder / "report.html").exists()
    copy(maml, tmp_path / "runs" / "good")
    assert main(["report", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr()
    assert message in said.err
    found = Document((tmp_path / "runs" / "report.html").read_text())
    assert "Not readable" in found.words
    assert message in found.words
    assert "good" in found.words


def test_no_run_there(tmp_path, msr):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name, found in (("nowhere", "none"), ("file", "a file"), ("empty", None)):
        refused_command(["report", tmp_path / name], str(tmp_path / name), found)
    refused_command(["report", msr, "--out", "/dev/null/x.html"], "/dev/null")
    refused_command(["report", msr, "--out", tmp_path / "empty"], str(tmp_path / "empty"), "a folder")
    refused_command(["report", msr, "--detail", "-1"], "--detail", -1)


ODD = [None, True, "text", [], [None], {}, {"a": [1]}, -1, 0, 1e400, float("nan"), 10**400]


@pytest.mark.parametrize("file", ["result.json", "config.json", "metrics.jsonl"])
def test_odd_values_make_a_page_or_one_line(file, msr, tmp_path):
    """Every key of every file with values of every kind: never another exception."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("result.json", "config.json", "metrics.jsonl"):
        shutil.copy(msr / name, folder / name)
    text = (folder / file).read_text()
    record = json.loads(text.splitlines()[0]) if file.endswith("l") else json.loads(text)
    pages = 0
    for key in record:
        for value in ODD:
            changed = json.dumps({**record, key: value})
            (folder / file).write_text(f"{changed}\n{text}" if file.endswith("l") else changed)
            try:
                pages += len(Document(render(folder).html).all("main"))
            except MetasymError as error:
                assert str(folder) in str(error), (key, value)
    assert pages > len(record)


def test_what_is_learned_is_not_finite(tmp_path):
    from metasym.storage.atomic import read_bytes, write_atomically
    from metasym.storage.serialization import pack, unpack

    for kind, key in (("kronecker", "U1"), ("dense", "U")):
        folder = train_into(tmp_path / kind, kind)
        state = unpack(read_bytes(folder / CURRENT), "")
        state["learner"][f"model.0.parametrizations.weight.0.{key}"].fill_(float("nan"))
        write_atomically(folder / CURRENT, pack(state))
        assert "U has entries of NaN or infinity" in page(folder).words
    folder = make_run(tmp_path / "solver", CONV, image_size=5, solver="ridge", symmetry="dense")
    state = unpack(read_bytes(folder / MODEL), "")
    state["learner"]["model.parametrizations.weight.0.U"].fill_(float("inf"))
    state["adapted"][""].fill_(float("inf"))
    write_atomically(folder / MODEL, pack(state))
    words = page(folder).words
    assert "The weight has entries of NaN or infinity" in words
    assert "U has entries of NaN or infinity" in words


def test_open_shows_it_in_the_browser(maml, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert main(["report", str(maml), "--out", str(tmp_path / "p.html"), "--open"]) == 0
    assert opened == [(tmp_path / "p.html").as_uri()]


def test_open_without_a_browser_says_so(maml, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert main(["report", str(maml), "--out", str(tmp_path / "p.html"), "--open"]) == 0
    assert str(tmp_path / "p.html") in capsys.readouterr().err


def test_all_runs_broken(msr, tmp_path):
    for name in ("a", "b"):
        (copy(msr, tmp_path / name) / "config.json").write_text("{")
    with refused(str(tmp_path), 2):
        render(tmp_path)


def test_the_command_writes_the_page(msr, tmp_path, capsys):
    folder = copy(msr, tmp_path / "run")
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"{folder / 'report.html'}: 1 run, ")
    first = (folder / "report.html").read_text()
    assert main(["report", str(folder), "--out", str(tmp_path / "deep" / "er" / "p.html")]) == 0
    assert (tmp_path / "deep" / "er" / "p.html").read_text() == first  # nothing random, no time in it
    assert len(first) < 1_000_000


def test_a_hundred_runs_stay_usable(maml, tmp_path):
    for index in range(100):
        folder = tmp_path / f"run{index:03}"
        folder.mkdir()
        for file in ("config.json", "result.json", "metrics.jsonl"):
            shutil.copy(maml / file, folder / file)
    made = write(tmp_path, tmp_path / "report.html")
    assert (made.runs, made.drawn) == (100, 20)
    assert len(made.html) < 3_000_000
    assert "The first 20 of 100 runs are drawn" in Document(made.html).words


def test_huge_layers_are_not_drawn():
    import torch

    from metasym.report.page.layer_section import layer_part
    from metasym.report.page.learned_layers import START, Layer
    from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry

    plain = layer_part(Layer("big", torch.zeros(1000, 1000, dtype=torch.float64), START, None))
    assert not plain.figures
    assert plain.notes == ["The weight has 1,000,000 entries: too many to draw."]
    wide = DenseSymmetry((3000, 3), 1000)
    dense = layer_part(Layer("", torch.zeros(3000, 3, dtype=torch.float64), START, wide))
    assert "U has 9,000,000 entries: too many to decompose on this page." in dense.notes
    factors = KroneckerSymmetry((700, 2), (700, 2))
    kronecker = layer_part(Layer("", torch.zeros(700, 2, dtype=torch.float64), START, factors))
    assert "U_out has 490,000 entries: too many to draw." in kronecker.notes
    assert [figure.title for figure in kronecker.figures] == ["Weight matrix", "Factor U_in"]
