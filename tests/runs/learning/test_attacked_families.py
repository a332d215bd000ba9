"""What ``ms.learn`` says of families made to break certificates: no sentence is false, whatever is not named."""

from __future__ import annotations

import json
import math
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.verdict import NearestRefuted, NothingNear, NotLinear, Status

N, TASKS, EXAMPLES = 6, 80, 20
RING = (np.arange(N)[:, None] - np.arange(N)) % N
Maps = np.ndarray


def ring_maps(draw: np.random.Generator, tasks: int = TASKS) -> Maps:
    """Circulant and symmetric: D_6."""
    return draw.standard_normal((tasks, 4))[:, np.minimum(RING, RING.T)]


TURN = SignedPermutation.of([*range(1, N), 0], [*range(1, N), 0])


def defect(maps: Maps, g: SignedPermutation = TURN) -> float:
    """The true one."""
    moved = g.on_weights(torch.from_numpy(maps)).numpy()
    return float(np.sqrt(((moved - maps) ** 2).sum() / (maps**2).sum()))


def remembering(draw: np.random.Generator, shape: tuple[int, ...], memory: float) -> np.ndarray:
    found = draw.standard_normal(shape)
    for i in range(1, shape[1]):
        found[:, i] = memory * found[:, i - 1] + np.sqrt(1 - memory**2) * found[:, i]
    return found


def learned(x: np.ndarray, y: np.ndarray, **options: object) -> LayerReport:
    return ms.learn(x, y, baseline=False, **options).symmetry[0]  # type: ignore[arg-type]


def observed(maps: Maps, draw: np.random.Generator, noise: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    x = draw.standard_normal((len(maps), EXAMPLES, N))
    y = np.einsum("tmn,ten->tem", maps, x)
    return x, y + noise * y.std() * draw.standard_normal(y.shape)


@pytest.mark.parametrize("seed", range(2))
def test_correlated_inputs_and_noise_do_not_refute_a_true_group(seed: int) -> None:
    draw = np.random.default_rng([seed, 0])
    x = remembering(draw, (TASKS, 2 * EXAMPLES, N), 0.9)
    y = np.einsum("tmn,ten->tem", ring_maps(draw), x)
    y += 0.3 * y.std() * remembering(draw, y.shape, 0.8)
    run = ms.learn(x, y, baseline=False, group="dihedral")
    (layer,) = run.symmetry
    assert not any(isinstance(one, NearestRefuted) for one in layer.verdict.reasons)
    assert not run.answer.rung.refuted
    assert not {"not_linear", "offset"} & {found["kind"] for found in run.config["findings"]}


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_is_loud_at_small_inputs_gives_no_bound_below_the_truth(seed: int) -> None:
    draw = np.random.default_rng([seed, 1])
    maps = ring_maps(draw)
    maps[:, :, 2] *= 0.7
    x = draw.standard_normal((TASKS, EXAMPLES, N))
    y = np.einsum("tmn,ten->tem", maps, x)
    y += 2.0 / (0.3 + (x**2).mean(2, keepdims=True)) ** 2 * draw.standard_normal(y.shape)
    answer = ms.learn(x, y, baseline=False, group="shifts").answer
    assert answer.rung.defect_upper is not None
    assert answer.rung.defect_upper >= defect(maps)
    assert answer.verdict.status is not Status.CERTIFIED


@pytest.mark.parametrize("seed", range(2))
def test_graphs_without_automorphisms_show_no_translation(seed: int) -> None:
    """The first graph that a seed draws without automorphisms, by brute force."""
    draw = np.random.default_rng([seed, 2])
    moves = [np.array(images) for images in permutations(range(N))]
    while True:
        edges = np.triu(draw.random((N, N)) < 0.5, 1).astype(float)
        edges += edges.T
        if sum(np.array_equal(edges[np.ix_(g, g)], edges) for g in moves) == 1:
            break
    laplacian = np.diag(edges.sum(0)) - edges
    maps = draw.standard_normal((TASKS, 1, 1)) * laplacian + draw.standard_normal((TASKS, 1, 1)) * np.eye(N)
    layer = learned(*observed(maps, draw))
    assert layer.group is None
    assert layer.partial == ()


def test_a_reversal_that_holds_exactly_is_found() -> None:
    draw = np.random.default_rng(3)
    maps = draw.standard_normal((150, N, N))
    maps += maps[:, ::-1, ::-1]
    layer = learned(*observed(maps, draw))
    assert layer.group is not None
    assert layer.group.order == 2
    (move,) = layer.group.generators
    assert (move.outputs, move.inputs) == (tuple(range(N))[::-1], tuple(range(N))[::-1])


def test_what_the_linear_part_has_is_bounded_as_it_is() -> None:
    draw = np.random.default_rng(4)
    maps = ring_maps(draw)
    maps[:, :, 2] *= 0.75
    x, y = observed(maps, draw)
    layer = learned(x, y + 0.2 * y.std() * (x[:, :, [0]] ** 2 - 1))
    assert layer.group is None
    (reason,) = layer.verdict.reasons
    assert isinstance(reason, NotLinear)
    assert reason.linear_part is not None
    upper = reason.linear_part.defect_upper
    wider = math.hypot(upper, 2 * math.sqrt(reason.share))  # what the ladder says of all that tasks compute
    (rung,) = (one for one in layer.ladder if one.defect_upper == pytest.approx(wider))
    assert upper >= max(defect(maps, g) for g in rung.generators)


def test_sign_changes_that_diagonal_maps_have_are_said() -> None:
    draw = np.random.default_rng(5)
    maps = draw.standard_normal((TASKS, N))[:, :, None] * np.eye(N)
    layer = learned(*observed(maps, draw))
    (reason,) = layer.verdict.reasons
    assert isinstance(reason, NothingNear)
    assert reason.negatable_blocks == N


@pytest.mark.parametrize("family", ["alike", "multiples"])
def test_what_is_named_of_tasks_that_are_one_map_is_called_that_maps(family: str) -> None:
    draw = np.random.default_rng(6)
    sizes = np.ones((TASKS, 1, 1)) if family == "alike" else draw.standard_normal((TASKS, 1, 1))
    x, y = observed(sizes * draw.standard_normal(N)[RING], draw)
    run = ms.learn(x, y, baseline=False)
    assert f"tasks_{family}" in {found["kind"] for found in run.config["findings"]}
    group = run.symmetry[0].group
    assert group is not None
    assert group.name == f"Z_{N}"


def test_tasks_that_differ_are_named_in_the_words_the_json_and_at_the_top_of_the_page(tmp_path: Path) -> None:
    draw = np.random.default_rng(7)
    maps = ring_maps(draw)
    maps[[33, 57], :, 3] *= 0.5
    run = ms.learn(*observed(maps, draw), baseline=False, out=tmp_path / "run")
    (layer,) = run.symmetry
    assert layer.group is not None
    assert layer.differing is not None
    assert layer.differing.tasks == (33, 57)
    assert layer.group.defect_upper is not None
    assert layer.group.defect_upper >= defect(maps)
    stored = json.loads((tmp_path / "run" / "result.json").read_text())["symmetry"]["layers"][0]
    assert stored["differing"]["tasks"] == [33, 57]
    page = run.report(tmp_path / "page.html").read_text()
    lead = re.findall(r'<p class="lead">(.*?)</p>', page, re.DOTALL)[0]
    for text in (lead, stored["verdict"]["words"]):
        assert "(33, 57: input 3" in text
