"""``ms.learn(x, y, group=G)``: a user's own hypothesis, held against their tasks; truths by brute force."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import metasym as ms
from metasym.cli.main import main
from metasym.verdicts.reports import GroupAnswer
from metasym.verdicts.verdict import ExamplesDependent, NearestRefuted, NotContradicted, Status
from tests.refusals import refused

N, TASKS, EXAMPLES = 6, 60, 20


def ring_maps(seed: int, tasks: int = TASKS) -> np.ndarray:
    """Circulant, symmetric maps: D_6 and nothing larger."""
    draw = np.random.default_rng(seed)
    weights = draw.standard_normal((tasks, 4))
    apart = np.minimum((np.arange(N)[:, None] - np.arange(N)) % N, (np.arange(N) - np.arange(N)[:, None]) % N)
    return weights[:, apart]


def observed(maps: np.ndarray, seed: int, noise: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng([seed, 1])
    x = draw.standard_normal((len(maps), EXAMPLES, maps.shape[2]))
    y = np.einsum("tmn,ten->tem", maps, x)
    return x, y + noise * y.std() * draw.standard_normal(y.shape)


def defect(maps: np.ndarray, images: list[int]) -> float:
    moved = np.empty_like(maps)
    moved[:, np.array(images)[:, None], np.array(images)] = maps
    return float(np.sqrt(((moved - maps) ** 2).sum() / (maps**2).sum()))


def asked(x: np.ndarray, y: np.ndarray, group: object, **options: object) -> GroupAnswer:
    return ms.learn(x, y, group=group, baseline=False, **options).answer  # type: ignore[arg-type]


SHIFT = [1, 2, 3, 4, 5, 0]
SWAP = [1, 0, 2, 3, 4, 5]


def test_a_group_that_holds_is_answered_yes_with_a_bound() -> None:
    x, y = observed(ring_maps(0), 0)
    found = asked(x, y, "dihedral")
    assert found.verdict.status is Status.CERTIFIED
    assert (found.rung.name, found.rung.order, found.asked.text) == ("D_6", 12, "dihedral")
    assert found.rung.defect_upper is not None
    assert found.rung.defect_upper < 0.02
    assert found.verdict.tasks == TASKS


@pytest.mark.parametrize("given", ["shifts", ms.groups.cyclic(N), ms.groups.shifts(N)])
def test_a_subgroup_of_what_is_found_holds_too(given: object) -> None:
    x, y = observed(ring_maps(1), 1)
    assert asked(x, y, given).verdict.status is Status.CERTIFIED


def test_a_sensor_that_reads_low_is_nearly_and_named() -> None:
    maps = ring_maps(2)
    maps[:, :, 4] *= 0.9
    x, y = observed(maps, 2)
    found = asked(x, y, "shifts")
    assert found.verdict.status is Status.APPROXIMATE
    assert isinstance(found.verdict.reasons[0], NearestRefuted)
    true = defect(maps, SHIFT)
    assert found.rung.defect_upper is not None
    assert true <= found.rung.defect_upper < 1.5 * true
    assert found.rung.breaking is not None
    assert (found.rung.breaking.part, found.rung.breaking.index) == ("input", 4)
    assert found.rung.breaking.factor == pytest.approx(0.9, abs=0.03)


def test_what_is_asked_about_has_the_same_bound_on_the_ladder() -> None:
    maps = ring_maps(2)
    maps[:, :, 4] *= 0.9
    run = ms.learn(*observed(maps, 2), group="dihedral", baseline=False)
    layer = run.symmetry[0]
    [rung] = [one for one in layer.ladder if one.order == 12]
    assert (rung.defect, rung.defect_upper) == (run.answer.rung.defect, run.answer.rung.defect_upper)


def test_a_group_that_does_not_hold_is_answered_no() -> None:
    maps = ring_maps(3)
    x, y = observed(maps, 3)
    found = asked(x, y, "permutations")
    assert found.verdict.status is Status.NONE
    assert found.rung.refuted
    assert found.rung.order == 720
    # The largest of a generator or of the whole group's mean over elements.
    assert found.rung.defect >= 0.95 * defect(maps, SWAP)


def test_tasks_that_cannot_tell_say_so() -> None:
    x, y = observed(ring_maps(4, 12), 4, noise=1.5)
    found = asked(x, y, "dihedral")
    assert found.verdict.status is Status.UNDECIDED
    assert isinstance(found.verdict.reasons[0], NotContradicted | ExamplesDependent)


def test_an_invariance_moves_the_inputs_alone() -> None:
    draw = np.random.default_rng(5)
    maps = np.repeat(draw.standard_normal((TASKS, 1, 1)), N, 2)
    x, y = observed(maps, 5)
    found = asked(x, y, "permutations")
    assert found.asked.invariance
    assert found.verdict.status is Status.CERTIFIED


def test_the_answer_is_in_the_files_the_words_and_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = observed(ring_maps(6), 6)
    np.savez(tmp_path / "tasks.npz", x=x, y=y)
    out = tmp_path / "run"
    assert main(
        ["learn", str(tmp_path / "tasks.npz"), "--out", str(out), "--no-baseline", "--group", "shifts"]
    ) in (
        0,
        None,
    )
    told = capsys.readouterr().out
    run = ms.open_run(out)
    assert run.answer.verdict.status is Status.CERTIFIED  # type: ignore[attr-defined]
    stored = run.result["symmetry"]["layers"][0]["answer"]  # type: ignore[attr-defined]
    assert stored["verdict"]["words"] in " ".join(told.split())
    assert stored["asked"]["text"] == "shifts"
    main(["report", str(out), "--out", str(tmp_path / "page.html")])
    assert stored["verdict"]["words"].split("?")[0] in (tmp_path / "page.html").read_text()
    with pytest.raises(ms.MetasymError):  # another question is another run
        ms.learn(tmp_path / "tasks.npz", out=out, baseline=False, group="dihedral")


@pytest.mark.parametrize(
    ("group", "options"),
    [("shifts:5", {}), ("nonsense", {}), ("dihedral", {"model": "mlp"}), (ms.groups.cyclic(4), {}), (7, {})],
)
def test_what_cannot_be_asked_is_refused(group: object, options: dict[str, object]) -> None:
    x, y = observed(ring_maps(7, 20), 7)
    with pytest.raises(ms.MetasymError):
        asked(x, y, group, **options)


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("shifts", "dihedral", "a run with group='dihedral', found one with group='shifts'"),
        ("shifts", None, "a run with no group, found one with group='shifts'"),
        (None, "shifts", "a run with group='shifts', found one with no group"),
    ],
)
def test_a_run_that_was_asked_something_else_is_refused_in_words(
    tmp_path: Path, first: object, then: object, said: str
) -> None:
    x, y = observed(ring_maps(0, 20), 0)
    out = tmp_path / "run"
    ms.learn(x, y, group=first, out=out, baseline=False)
    with refused(f"{out}: group") as caught:
        ms.learn(x, y, group=then, out=out, baseline=False)
    assert str(caught.value).endswith(said)


def _matrices(images: list[int]) -> str:
    one = np.eye(N)[images].tolist()
    return json.dumps({"outputs": [one], "inputs": [one]})


def test_a_file_that_holds_another_group_now_is_another_question(tmp_path: Path) -> None:
    x, y = observed(ring_maps(0, 20), 0)
    out, file = tmp_path / "run", tmp_path / "group.json"
    file.write_text(_matrices(SHIFT))
    ms.learn(x, y, group=str(file), out=out, baseline=False)
    file.write_text(_matrices(SWAP))
    with refused(f"{out}: group") as caught:
        ms.learn(x, y, group=str(file), out=out, baseline=False)
    assert str(caught.value).endswith("found one where that was another group")


def test_a_run_that_was_not_asked_has_no_answer() -> None:
    x, y = observed(ring_maps(8, 20), 8)
    with pytest.raises(ms.MetasymError):
        _ = ms.learn(x, y, baseline=False).answer
