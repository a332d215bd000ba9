"""Tasks that belong together: ``blocks=``, ``--blocks COLUMN``, and tasks that are others measured again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli.main import main
from metasym.diagnosis.repeated_tasks import dependent_blocks, near_copies
from metasym.runs.files.learn_options import Options
from metasym.runs.learning.automatic_choices import split
from metasym.tasks.arrays_of_tasks import tasks_of_arrays
from metasym.tasks.reading import read_tasks
from metasym.tasks.task_file import Reading

N, EXAMPLES = 4, 14


def robots(
    seed: int, count: int, each: int, noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Circulant maps, one for each robot, and ``each`` tasks of every robot."""
    draw = np.random.default_rng(seed)
    weights = draw.standard_normal((count, N))
    maps = np.repeat(weights[:, (np.arange(N)[:, None] - np.arange(N)) % N], each, 0)
    x = draw.standard_normal((count * each, EXAMPLES, N))
    y = np.einsum("tmn,ten->tem", maps, x)
    return x, y + noise * y.std() * draw.standard_normal(y.shape), np.repeat(np.arange(count), each)


@pytest.mark.parametrize("seed", range(5))
def test_no_block_is_on_two_sides_of_the_split(seed: int) -> None:
    x, y, blocks = robots(seed, 9, 5)
    mixed = np.random.default_rng(seed).permutation(len(blocks))
    file = tasks_of_arrays(x[mixed], y[mixed], Reading(), blocks[mixed])
    parts = split(file, Options(seed=seed))
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(len(blocks)))
    sides = [set(blocks[mixed][part].tolist()) for part in parts]
    assert all(sides)
    assert sum(map(len, sides)) == len(set.union(*sides))
    # A split that exists is found again from how many tasks it has, as an opened run does.
    again = Options(seed=seed, validation=len(parts[1]) / 45, test=len(parts[2]) / 45)
    assert all(torch.equal(a, b) for a, b in zip(parts, split(file, again), strict=True))


def test_eight_tasks_of_one_robot_say_nothing_about_further_robots() -> None:
    """Of eight robots none differs: at most 31 % of further ones do (0.05 to the power of an eighth)."""
    x, y, blocks = robots(3, 8, 8)
    together = ms.learn(x, y, baseline=False, blocks=blocks, group="shifts").answer
    alone = ms.learn(x, y, baseline=False, group="shifts").answer
    assert together.differing is not None
    assert alone.differing is not None
    seen = 0.975 * 0.95
    assert together.differing.share_upper == pytest.approx((1 - 0.05 ** (1 / 8)) / seen, rel=1e-6)
    assert alone.differing.share_upper == pytest.approx((1 - 0.05 ** (1 / 64)) / seen, rel=1e-6)


def test_four_blocks_are_too_few_to_certify_anything() -> None:
    x, y, blocks = robots(4, 4, 12)
    assert ms.learn(x, y, baseline=False, blocks=blocks).symmetry[0].group is None
    assert ms.learn(x, y, baseline=False).symmetry[0].group is not None


def test_a_column_of_a_table_names_them(tmp_path: Path) -> None:
    x, y, blocks = robots(5, 6, 3)
    rows = ["task,robot,a,b,c,d,p,q,r,s"]
    for t in range(len(x)):
        rows += [
            f"t{t},robot{blocks[t]},{','.join(map(str, (*i, *o)))}" for i, o in zip(x[t], y[t], strict=True)
        ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(rows))
    reading = Reading(task="task", inputs="a,b,c,d", outputs="p,q,r,s", blocks="robot")
    assert read_tasks(path, reading).blocks == tuple(f"robot{b}" for b in blocks)
    flags = [
        "--task",
        "task",
        "--inputs",
        "a,b,c,d",
        "--outputs",
        "p,q,r,s",
        "--blocks",
        "robot",
        "--no-baseline",
    ]
    assert not main(["learn", str(path), "--out", str(tmp_path / "run"), *flags])
    run = ms.open_run(tmp_path / "run")
    assert "blocks" in run.config["data"]
    assert len({blocks[i] for i in run.test_tasks().given.tolist()}) < 6  # type: ignore[attr-defined]
    np.savez(tmp_path / "t.npz", x=x, y=y, blocks=blocks)
    assert read_tasks(tmp_path / "t.npz").blocks == tuple(map(str, blocks))


@pytest.mark.parametrize(
    "blocks", [[0, 1], np.zeros(45), [0] * 45, [0] * 20 + [1] * 25, np.zeros((45, 2), int)]
)
def test_blocks_that_make_no_sense_are_refused(blocks: object) -> None:
    x, y, _ = robots(6, 9, 5)
    with pytest.raises(ms.MetasymError) as refused:
        ms.learn(x, y, blocks=blocks, baseline=False)
    assert "blocks" in refused.value.about


def test_a_task_in_two_blocks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join(["task,day,a,p", *(f"{t},{d},{t + d},{t - d}" for t in range(6) for d in range(4))])
    )
    with pytest.raises(ms.MetasymError) as refused:
        read_tasks(path, Reading(task="task", inputs="a", outputs="p", blocks="day"))
    assert refused.value.found == "0"


def test_tasks_measured_again_are_noticed_and_count_as_one() -> None:
    x, y, _ = robots(7, 20, 1)
    draw = np.random.default_rng(0)
    order = draw.permutation(EXAMPLES)
    again = x[:5][:, order], y[:5][:, order] + 0.01 * y.std() * draw.standard_normal(y[:5].shape)
    both = [np.concatenate(pair) for pair in zip((x, y), again, strict=True)]
    file = tasks_of_arrays(*both, Reading())
    assert near_copies(file)[20:].tolist() == [0, 1, 2, 3, 4]
    assert len(set(dependent_blocks(file).tolist())) == 20
    kinds = [f["kind"] for f in ms.learn(*both, baseline=False).config["findings"]]
    assert "near_copies" in kinds


def test_a_design_that_all_tasks_share_has_no_copies() -> None:
    draw = np.random.default_rng(8)
    x = np.repeat(draw.standard_normal((1, EXAMPLES, N)), 60, 0)
    maps = draw.standard_normal((60, 1, 1)) * draw.standard_normal(
        (N, N)
    )  # multiples of one map: near by chance
    y = np.einsum("tmn,ten->tem", maps, x)
    assert (near_copies(tasks_of_arrays(x, y, Reading())) == np.arange(60)).all()
    x, y, _ = robots(9, 60, 1)
    assert (near_copies(tasks_of_arrays(x, y, Reading())) == np.arange(60)).all()
