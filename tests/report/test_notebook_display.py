"""What objects show in a notebook: short text, the page's cards, figures, a bar in place of red lines."""

from __future__ import annotations

import html
import re
import sys
import types
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

import metasym as ms
from metasym.training.progress import Counter, displays
from metasym.types import Record

MOST = 500


def wide(size: int = 64) -> ms.SymmetryReport:
    """A report on one wide layer whose weights are tied as a ring's."""
    model = torch.nn.Linear(size, size, bias=False)
    g = torch.Generator().manual_seed(0)
    ms.reparameterize(model, "dense", filter_size=size, std=1.0, generator=g)
    places = (torch.arange(size)[None, :] - torch.arange(size)[:, None]) % size
    with torch.no_grad():
        ms.symmetries(model)[""].U.copy_(torch.eye(size)[places.flatten()])
    return ms.inspect(model)


@pytest.fixture(scope="module")
def report() -> ms.SymmetryReport:
    return wide()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ms.Run:
    g = torch.Generator().manual_seed(0)
    filters = torch.randn(60, 4, generator=g)
    x = torch.randn(60, 12, 4, generator=g)
    places = (torch.arange(4)[None, :] - torch.arange(4)[:, None]) % 4
    y = torch.einsum("tij,tej->tei", filters[:, places], x)
    return ms.learn(x.numpy(), y.numpy(), out=tmp_path_factory.mktemp("run") / "run", outer_steps=2)


def test_reports_are_short_as_text(report: ms.SymmetryReport) -> None:
    layer = report[0]
    for value in (report, layer, layer.verdict, layer.pattern, layer.group):
        assert len(repr(value)) < MOST
    assert layer.group is not None
    assert layer.group.name in repr(report)


def test_runs_scores_and_batches_are_short_as_text(run: ms.Run) -> None:
    batch = ms.Batch(torch.zeros(32, 500, 70), torch.zeros(32, 500, 70))
    score = ms.Score(tuple(float(i) for i in range(2000)), 1.0, 0.1, 1.0)
    episode = ms.Episode(batch, batch, torch.arange(32))
    record = Record(3, 0.5, 1.0, 0.5, 0.1, {f"layer{i}": 0.1 for i in range(200)})
    values = [
        run,
        run.symmetry,
        run.verdict,
        *run.symmetry[0].ladder,
        run.scores,
        batch,
        score,
        episode,
        record,
    ]
    assert all(len(repr(value)) < MOST for value in values)
    assert "[32, 500, 70]" in repr(batch)


def test_trainings_costs_and_checks_are_short_as_text(tmp_path: Path) -> None:
    def network() -> torch.nn.Module:
        layers = [torch.nn.Linear(8, 8) for _ in range(6)]
        return ms.reparameterize(torch.nn.Sequential(*layers), generator=torch.Generator().manual_seed(0))

    x = torch.randn(6, 20, 8, generator=torch.Generator().manual_seed(0))
    tasks = ms.tasks.ArrayTasks(x, x, support=5)
    for _ in ms.train(ms.MSR(network()), tasks, outer_steps=1, out=tmp_path / "run", progress="silent"):
        pass
    rows = x.flatten(0, 1).numpy()
    check = ms.check_equivariance(lambda z: z.sum(1), rows[:, :4], "permutations")
    values = [
        ms.open_run(tmp_path / "run", model=ms.MSR(network())),
        ms.split(network()),
        ms.cost(network()),
        check,
        ms.shared_parameters(rows[:, :4], rows[:, 0]),
        ms.discover(lambda z: (z**2).sum(1), rows[:, :3], finite=False).found,
        ms.inspect(ms.reparameterize(torch.nn.Linear(8, 8)), "permutations")[0].errors,
    ]
    for value in values:
        assert len(repr(value)) < MOST
        assert repr(value).startswith(f"{type(value).__name__}(")
    assert f"{check.worst.defect:.2g}" in repr(check)


def test_task_sets_say_what_they_are() -> None:
    tasks = ms.tasks.ArrayTasks(torch.zeros(5, 9, 3), torch.zeros(5, 9, 2), support=4)
    problem = ms.tasks.translation(1, train_tasks=4, test_tasks=3)
    sets = [tasks, ms.tasks.Subset(tasks, range(3)), problem, problem.train, problem.test]
    for one in sets:
        assert len(repr(one)) < MOST
        assert " object at 0x" not in repr(one)
    assert "5 tasks of 9 examples" in repr(tasks)


def test_a_report_shows_the_cards_of_the_page(report: ms.SymmetryReport, run: ms.Run, tmp_path: Path) -> None:
    for shown in (report, report[0]):
        found = html.unescape(shown._repr_html_())
        assert found.count('<div class="card') == 1  # the numbers of one layer
        assert "Sharing pattern" in found
        assert "64 inputs behave like a ring" in found
    page = run.report(tmp_path / "page.html").read_text()
    framed = run._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', framed)[1]) == page  # type: ignore[index]


def test_plots_are_figures_with_the_numbers_of_the_report(report: ms.SymmetryReport, run: ms.Run) -> None:
    figure = report.plot()
    assert isinstance(figure, Figure)
    used = figure.axes[1].lines[0].get_ydata()
    assert list(used) == list(report[0].singular_values[: report[0].effective_filter_size])
    assert isinstance(report[0].plot(), Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")  # shown by a notebook that has not imported pyplot
    drawn = run.plot()
    bars = [bar.get_height() for axis in drawn.axes for bar in axis.patches]
    assert bars == [run.scores.mean, *([] if run.baseline is None else [run.baseline.mean])]


def test_pictures_of_a_layer_without_a_symmetry_are_folded(report: ms.SymmetryReport) -> None:
    """A wide layer that learned nothing: its pictures are noise, and would fill screens."""
    model = torch.nn.Linear(64, 64, bias=False)
    ms.reparameterize(model, "dense", filter_size=8, std=1.0, generator=torch.Generator().manual_seed(0))
    noise = ms.inspect(model)
    assert noise[0].group is None
    folded = html.unescape(noise._repr_html_())
    shown = html.unescape(report._repr_html_())
    assert "<figure" in folded.split("<details")[1]
    assert "<figure" not in folded.split("<details")[0]
    assert "<figure" in shown
    assert "<details" not in shown


class _Handle:
    def __init__(self) -> None:
        self.drawn: list[str] = []

    def update(self, value: object) -> None:
        self.drawn.append(repr(value))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> _Handle:
    """A kernel as IPython shows one to its guests."""
    handle = _Handle()

    def display(value: object, display_id: bool = False) -> _Handle:
        assert display_id
        handle.update(value)
        return handle

    ipython, shown = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    shell = types.SimpleNamespace(kernel=object())
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    shown.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return handle


def test_a_notebook_gets_a_bar_and_no_red_lines(
    notebook: _Handle, capsys: pytest.CaptureFixture[str]
) -> None:
    (bar,) = displays("auto", total=3, done=0, tensorboard=None)
    for step in (1, 3):
        bar.show(Record(step, 0.25, 1.0, 0.5, 0.1, steps_per_second=10.0))
    bar.close()
    counter = Counter("auto", "scored", 10, "tasks")
    counter._next = 0.0
    counter.show(5)
    assert [text.split()[0] for text in notebook.drawn] == ["1/3", "3/3", "5/10"]
    assert capsys.readouterr().err == ""


def test_lines_where_there_is_no_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    (lines,) = displays("plain", total=3, done=0, tensorboard=None)
    lines.show(Record(1, 0.25, 1.0, 0.5, 0.1))
    assert capsys.readouterr().err
