"""What the report page draws, read back from the drawing."""

from __future__ import annotations

import base64
import io
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import metasym as ms
from metasym import groups
from metasym.inspection import inspect
from metasym.inspection.layers import inspect_layer
from metasym.report.gauge import readable
from metasym.report.page import render
from metasym.report.page.found_symmetry import (
    class_colour,
    errors_figure,
    group_figures,
    pattern_figure,
    permutation_picture,
)
from metasym.report.page.html_words import breakable, number, tick
from metasym.report.page.layer_section import layer_part
from metasym.report.page.learned_layers import DRAWN, Layer, drawn_weight
from metasym.report.page.matrix_pictures import NEGATIVE, POSITIVE, matrix_image
from metasym.report.page.svg import Scale, Series, histogram, line_chart, linear_ticks, log_ticks
from metasym.report.page.training_section import POINTS, thinned
from metasym.runs.files.model_files import write_model
from metasym.storage.json_files import write_json
from metasym.symmetry.parametrized import short_name
from metasym.verdicts.defect_words import capital
from metasym.verdicts.layer_words import verdict_words
from tests.report.page_runs import Document


def pixels(markup: str) -> np.ndarray:
    """The picture in an <img>, RGBA."""
    (data,) = re.findall(r"base64,([A-Za-z0-9+/=]+)", markup)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


def signed_shifts(n: int) -> groups.Group:
    turn = torch.zeros(n, n, dtype=torch.float64)
    turn[torch.arange(1, n), torch.arange(n - 1)] = 1
    turn[0, n - 1] = -1
    return groups.from_generators([turn])


def planted(group: groups.Group) -> torch.nn.Module:
    """A layer whose U is a basis of the group's equivariant maps, turned at random, and a little noise."""
    generator = torch.Generator().manual_seed(0)
    basis = groups.equivariant_basis(group, group)
    turn = torch.linalg.qr(torch.randn(basis.shape[1], basis.shape[1], generator=generator).double()).Q
    U = 3 * basis @ turn + 0.01 * torch.randn(basis.shape, generator=generator)
    model = torch.nn.Linear(group.degree, group.degree, bias=False)
    return ms.reparameterize(model, lambda _, module: ms.DenseSymmetry(module.weight.shape, U=U.float()))


def test_a_matrix_is_its_signs_and_sizes():
    values = np.array([[0.0, 2.0, -1.0], [-2.0, 0.5, math.nan]])
    found = pixels(matrix_image(values, "m"))
    assert found.shape == (2, 3, 4)
    opacity = found[..., 3] / 255
    np.testing.assert_allclose(opacity[0], [0, 1, 0.5], atol=0.01)
    np.testing.assert_allclose(opacity[1], [1, 0.25, 1], atol=0.01)
    assert tuple(found[0, 1, :3]) == POSITIVE
    assert tuple(found[1, 0, :3]) == NEGATIVE
    assert tuple(found[1, 2, :3]) not in (POSITIVE, NEGATIVE)
    assert not pixels(matrix_image(np.zeros((2, 2)), "zero"))[..., 3].any()
    halved = pixels(matrix_image(values, "m", limit=4.0))
    assert abs(halved[0, 1, 3] / 255 - 0.5) < 0.01


def test_small_patterns_are_lettered():
    pattern = inspect(planted(signed_shifts(6)))[0].pattern
    figure = pattern_figure(pattern)
    letters = [int(t.replace("−", "-")) for t in re.findall(r">(−?\d+)</text>", figure.body)]
    assert letters == [value for row in pattern.classes for value in row]
    assert min(letters) < 0
    assert "opposite sign" in figure.caption


def test_large_patterns_are_coloured():
    pattern = inspect(planted(groups.shifts(22)))[0].pattern
    found = pixels(pattern_figure(pattern).body)
    assert found.shape[:2] == (22, 22)
    classes, colours = np.array(pattern.classes), found[..., :3].reshape(-1, 3)
    for number_ in range(1, 23):
        (own,) = np.unique(colours[(classes == number_).ravel()], axis=0)
        assert tuple(own) in {class_colour(rank) for rank in range(22)}
    assert len(np.unique(colours, axis=0)) == 22


def test_neighbouring_classes_look_different():
    for rank in range(60):
        apart = np.subtract(class_colour(rank), class_colour(rank + 1))
        assert np.abs(apart).max() > 60


@pytest.mark.parametrize(
    "make", [lambda: groups.shifts(7), lambda: groups.dihedral(5), lambda: signed_shifts(5)]
)
def test_generators_are_drawn_as_they_map(make):
    report = inspect(planted(make()))[0]
    (card,) = group_figures(report.group)
    assert str(len(report.group.generators)) in card.title or len(report.group.generators) == 1
    tiles = re.findall(r"<li>.*?</li>", card.body)
    for element, tile in zip(report.group.generators, tiles, strict=True):
        sides = [element.outputs] if element.outputs == element.inputs else [element.outputs, element.inputs]
        rings = re.findall(r"<svg.*?</svg>", tile)
        assert len(rings) == len(sides)
        for ring, to in zip(rings, sides, strict=True):
            moved = sum(i != j for i, j in enumerate(to))
            assert ring.count('class="node') == len(to)
            assert ring.count('class="head"') == moved  # a line with two heads for a swap
        flips = min(element.output_signs + element.input_signs) < 0
        assert ("arrow flipped" in tile or "node still flipped" in tile) == flips
        assert flips <= ("Dashed" in card.caption)


def test_an_arrow_goes_from_a_point_to_its_image():
    ring = permutation_picture("points", [1, 2, 0], [1, 1, 1])
    nodes = [
        tuple(map(float, p)) for p in re.findall(r'<circle class="node" cx="([\d.]+)" cy="([\d.]+)"', ring)
    ]
    arrows = re.findall(r'<path class="arrow" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', ring)
    pairs = set()
    for arrow in arrows:
        x, y, p, q = map(float, arrow)
        pairs.add(tuple(min(range(3), key=lambda i, a=a: math.dist(nodes[i], a)) for a in ((x, y), (p, q))))
    assert pairs == {(0, 1), (1, 2), (2, 0)}


def test_many_points_are_a_permutation_matrix():
    to = np.random.default_rng(0).permutation(40)
    found = pixels(permutation_picture("points", to.tolist(), [1] * 40))[..., 3] > 0
    assert (found.argmax(0) == to).all()
    assert found.sum() == 40


def test_generators_say_what_inputs_and_outputs_are_called():
    group = inspect(planted(groups.shifts(3)))[0].group
    (card,) = group_figures(group, ("up", "left", "right"), ("u", "l", "r"))
    assert "outputs (up → left → right)" in card.body or "outputs (up → right → left)" in card.body
    assert "inputs (u → l → r)" in card.body or "inputs (u → r → l)" in card.body
    (plain,) = group_figures(group)
    assert "outputs and inputs (0 1 2)" in plain.body or "outputs and inputs (0 2 1)" in plain.body


def test_ticks_do_not_run_into_each_other():
    for low in (1e-8, 3e-5, 0.02, 700.0):
        for factor in (1.5, 3, 8, 60, 1e4, 1e9):
            values = [low * factor ** (i / 30) for i in range(31)]
            chart = histogram(values, xlabel="", about="", log=True)
            labels = re.findall(
                r'<text class="tick" x="([\d.]+)" y="225" text-anchor="(\w+)">([^<]+)<', chart
            )
            assert labels
            right = 0.0
            for x, anchor, text in labels:
                wide = 7.5 * len(text)
                left = float(x) - (wide if anchor == "end" else wide / 2)
                assert left >= right, (low, factor, labels)
                right = left + wide
                assert right <= 400


def own_choices(**changes: object) -> dict[str, object]:
    """The choices of a run of ``metasym learn``, as its config.json has them."""
    counts = dict.fromkeys(("hidden", "kernel_size", "support", "train_support", "train_tasks"), 2)
    counts |= dict.fromkeys(("validation_tasks", "test_tasks", "inner_steps", "find_steps", "outer_steps"), 2)
    counts |= dict.fromkeys(("tasks_per_step", "validate_every", "patience", "seed", "padding"), 2)
    others = {
        "single_layer": True,
        "bias": False,
        "symmetry": "dense",
        "filter_size": None,
        "solver": "ridge",
    }
    rates = {"penalty": None, "inner_lr": 0.1, "outer_lr": 0.01}
    layout = {"input_shape": [5], "output_shape": [5]}
    return {"model": "fc", **counts, **others, **rates, "layout": layout, **changes}


def test_a_run_with_a_network_of_the_users_own_shows_its_stored_report(tmp_path):
    model = planted(groups.dihedral(5))
    report = inspect(model)
    learner = ms.MSR(model, loss=F.mse_loss)
    write_model(tmp_path, model, learner.state_dict(), learner.describe(), {})
    config = {"command": "learn", "experiment": "learn/mine", "method": "msr", "recipe": "learn"}
    array = {"shape": [20, 8, 5], "dtype": "float32", "crc32": 0}
    choices = own_choices(model="mine:net", seed=5, outer_steps=9)
    data = {"path": "mine.npz", "x": array, "y": array, "classes": 0}
    write_json(tmp_path / "config.json", {**config, "data": data, "choices": choices})
    result = {
        "mean": 0.5,
        "ci95": 0.1,
        "median": 0.4,
        "diverged": 0,
        "outer_steps": 9,
        "inner_lrs": {},
        "seed": 5,
        "seconds": 1.0,
        "command": "metasym learn mine.npz",
        "commit": None,
        "versions": {},
    }
    others = {"support": 2, "by_support": {"1": {"mean": 0.7, "ci95": 0.2}, "2": {"mean": 0.5, "ci95": 0.1}}}
    write_json(
        tmp_path / "result.json",
        {**config, "metric": "mse", **result, **others, "symmetry": report.to_json(), "per_task": [0.4, 0.6]},
    )
    found = Document(render(tmp_path).html)
    assert (report[0].group.name, report[0].group.order) == ("D_5", 10)
    assert capital(verdict_words(report[0])) in found.words
    assert "Sharing pattern" in found.words
    assert "Submatrices of U" in found.words
    assert "made by U from a filter drawn at random" in found.words
    assert "2, as chosen" in found.words
    (tmp_path / "result.json").unlink()  # as a run that was killed has it: a checkpoint alone
    (tmp_path / "model.safetensors").unlink()
    ms.save(learner, tmp_path / "checkpoint.safetensors")
    assert "does not say which shape" in Document(render(tmp_path).html).words


def test_rotations_of_kernels():
    basis = groups.conv_basis(3, 4, fields_out=2)
    symmetry = ms.DenseSymmetry(basis.shape, U=basis.orthonormal())
    report = inspect_layer("conv", symmetry)
    part = layer_part(Layer("conv", drawn_weight(symmetry), DRAWN, symmetry), report)
    assert part.short == report.group.name
    titles = [figure.title for figure in part.figures]
    assert "Filters" in titles
    (generator,) = [figure for figure in part.figures if figure.title.startswith("Generator")]
    assert "<span>rotation by 90 degrees: outputs (" in generator.body
    (table,) = part.tables
    fits = {line[0]: line[1] for line in table.rows}
    assert fits["rotation by 90 degrees"] == fits["rotation by 180 degrees"] == "yes"
    assert fits["rotation by 45 degrees"] == fits["left-right flip"] == "no"


def test_errors_as_bars():
    errors = inspect(planted(groups.shifts(20)), "shifts")[0].errors
    figure = errors_figure(errors)
    widths = [float(w) for w in re.findall(r'class="bar" x="2" y="\d+" width="([\d.]+)"', figure.body)]
    span = math.log10(math.sqrt(2)) + 8
    expected = [max(310 * (math.log10(max(e, 1e-8)) + 8) / span, 3) for e in errors.errors[:16]]
    np.testing.assert_allclose(widths, expected, atol=0.1)
    assert "The first 16 of 20 elements" in figure.caption


def test_more_columns_than_a_block_has_rows():
    U = torch.randn(20, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = readable(U, 4, 9)
    torch.testing.assert_close(turned @ turned.T, U @ U.T)  # a turn of the columns, nothing else
    first = turned[:4]
    torch.testing.assert_close(first[:, 4:], torch.zeros(4, 5, dtype=torch.float64))
    torch.testing.assert_close(first[:, :4], first[:, :4].T)
    assert bool((torch.linalg.eigvalsh(first[:, :4]) > 0).all())


def test_lines_go_where_the_values_are():
    chart = line_chart(
        [Series("a", [0, 5, 10], [1.0, math.nan, 100.0])], xlabel="x", ylabel="y", about="", log=True
    )
    (path,) = re.findall(r'<path class="line c0" d="([^"]*)"', chart)
    assert path.count("M") == 2  # a gap where it is NaN
    ticks = dict(re.findall(r'x="56" y="([\d.]+)"[^>]*>([^<]*)<', chart))
    heights = {label: float(y) for y, label in ticks.items()}
    ends = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", path)]
    np.testing.assert_allclose(ends, [heights["1"], heights["100"]], atol=0.2)
    assert line_chart([Series("a", [0], [math.nan])], xlabel="", ylabel="", about="") is None


def test_thinning_keeps_the_extremes():
    values = [float(i) for i in range(1000)]
    values[500], values[700] = 5000.0, math.nan
    line = thinned("a", list(range(1000)), values)
    assert len(line.x) <= POINTS
    assert max(line.high) == 5000.0
    assert min(line.low) == 0.0
    assert max(line.y) < 1000  # a median
    assert thinned("b", [1, 2], [3.0, 4.0]).y == [3.0, 4.0]


def test_ticks_are_round_and_inside():
    assert linear_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert log_ticks(0.001, 10_000) == [0.001, 0.01, 0.1, 1, 10, 100, 1000, 10000]
    assert log_ticks(1, 30) == [1, 2, 5, 10, 20]
    for low, high in ((3e-9, 7e11), (0.5, 0.9), (1.0, 3.5)):
        assert len(log_ticks(low, high)) >= 2
        assert all(low * 0.99 <= value <= high * 1.01 for value in log_ticks(low, high))
    assert Scale(1, 100, 0, 10, log=True)(10) == pytest.approx(5)


def test_numbers_and_names():
    assert [number(v) for v in (0.0717645, 1234.5, 0.0, 5.3e18, -2.5, math.nan, math.inf)] == [
        "0.0718", "1,234", "0", "5.30e18", "−2.50", "not finite", "∞",
    ]  # fmt: skip
    assert [tick(v) for v in (0.0, 0.25, 2e-4, 1e-5, 2e6, -3.0)] == ["0", "0.25", "2e−4", "1e−5", "2e6", "−3"]
    assert short_name("parametrizations.weight.original") == "v"
    assert short_name("2.parametrizations.weight.0.U1") == "U1 of 2"
    assert short_name("head.bias") == "head.bias"
    assert breakable("a/b_<c>") == "a/<wbr>b_&lt;c&gt;"


def test_what_is_counted_has_whole_ticks_and_marks_off_the_frame() -> None:
    def across(chart: str) -> list[str]:
        return re.findall(r'<text class="tick" x="[^"]*" y="2\d\d" text-anchor="\w+">([^<]*)<', chart)

    two = line_chart(
        [Series("", [1, 2], [2.0, 1.0], marks=True)], xlabel="number", ylabel="", about="", zero=True
    )
    assert across(str(two)) == ["1", "2"]
    places = [float(x) for x in re.findall(r'<circle[^>]*cx="([\d.]+)"', str(two))]
    assert len(places) == 2
    frame = re.search(r'<path class="axis" d="M(\d+) [\d.]+V[\d.]+H(\d+)"', str(two))
    assert float(frame[1]) + 5 < min(places)
    assert max(places) < float(frame[2]) - 5
    measured = line_chart([Series("", [0.1, 0.9], [2.0, 1.0])], xlabel="", ylabel="", about="")
    assert "0.2" in across(str(measured))
