"""``ms.discover`` and ``metasym discover`` on problems small enough for a test."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.discovery.continuous import invariance_claims
from metasym.discovery.continuous.invariance_symmetries import Explained, likeliest
from metasym.discovery.finite.finite_symmetries import FiniteModel
from metasym.discovery.models.gaussian_processes import Hyper
from metasym.discovery.models.invariant_features import Features, SymmetricFit
from metasym.runs.discovering import discover_run
from metasym.tasks.dataset import dataset, read_dataset
from metasym.types import MetasymError
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.discovery_reasons import ExplainedBetter, NotShownToBeNoise
from metasym.verdicts.verdict import Status
from tests.refusals import refused, refused_command

Array = npt.NDArray[np.float64]


def turning(count: int, seed: int, tilt: float = 0.0) -> tuple[Array, Array]:
    """A function of the length of (x0, x1) and of x2; ``tilt`` breaks the rotation."""
    x = np.random.default_rng(seed).normal(size=(count, 3))
    length = np.sqrt(x[:, 0] ** 2 + x[:, 1] ** 2)
    return x, np.sin(2 * length) + x[:, 2] * length + tilt * x[:, 0]


def test_a_rotation_is_found_named_and_built_in() -> None:
    x, y = turning(200, 0)
    found = ms.discover(x, y, finite=False)
    [one] = found.symmetries
    assert (one["kind"], one["name"], one["dimension"], one["inputs"]) == ("continuous", "so(2)", 1, [0, 1])
    generator = np.array(one["generators"][0])
    true = np.zeros((3, 4))
    true[0, 1], true[1, 0] = 1, -1
    cosine = abs((generator * true).sum()) / np.linalg.norm(generator) / np.linalg.norm(true)
    assert cosine > 0.9999
    assert found.symmetric is not None
    assert found.symmetric.error < found.plain.error / 3
    # The module has the symmetry exactly, and predicts.
    angle = torch.tensor(1.1, dtype=torch.float64)
    turn = torch.eye(3, dtype=torch.float64)
    turn[:2, :2] = torch.stack(
        [torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])]
    )
    x_new, y_new = (torch.tensor(part) for part in turning(50, 1))
    torch.testing.assert_close(found.model(x_new @ turn.T), found.model(x_new), atol=1e-6, rtol=0)
    assert float(((found.model(x_new) - y_new) ** 2).mean()) < 0.05 * float(y_new.var())


@pytest.mark.parametrize("tilt", [0.3, 1.0])
def test_a_broken_rotation_is_not_claimed(tilt: float) -> None:
    x, y = turning(200, 2, tilt)
    assert ms.discover(x, y, finite=False).symmetries == []


def test_noise_alone_has_no_symmetry() -> None:
    draw = np.random.default_rng(3)
    assert ms.discover(draw.normal(size=(60, 3)), draw.normal(size=60)).symmetries == []


def test_the_command_writes_a_result_a_model_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = turning(150, 4)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    out = tmp_path / "run"
    command = [
        "discover",
        str(tmp_path / "data.npz"),
        "--out",
        str(out),
        "--no-finite",
        "--progress",
        "silent",
    ]
    assert main(command) == 0
    assert "so(2)" in capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    assert result["symmetries"][0]["violation_upper"] < 0.003
    assert result["plain"]["mean"] > result["symmetric"]["mean"]
    model = ms.open_run(out).model
    assert model(torch.tensor(x)).shape == (150,)
    assert main(["report", str(out)]) == 0
    assert "so(2)" in (out / "report.html").read_text()
    capsys.readouterr()
    # A finished run is not run again, and other data are refused.
    monkeypatch.setattr(discover_run, "discover_in", lambda *_, **__: pytest.fail("it ran again"))
    assert main(command) == 0
    np.savez(tmp_path / "data.npz", x=x + 1, y=y)
    refused_command(command)


def test_a_killed_run_goes_on_behind_the_last_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = turning(150, 5)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    command = ["discover", str(tmp_path / "data.npz"), "--no-finite", "--progress", "silent", "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    for left in ("result.json", "model.safetensors", "stages/affine.json"):
        (tmp_path / "killed" / left).unlink()
    assert main([*command, str(tmp_path / "killed"), "--resume"]) == 0
    whole, killed = (
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed")
    )
    assert whole["symmetries"] == killed["symmetries"]
    assert whole["symmetric"] == killed["symmetric"]


@pytest.mark.parametrize(
    ("x", "y", "about"),
    [
        (np.ones((30, 2)), np.arange(30.0), "x"),
        (np.eye(30), np.ones(30), "y"),
        (np.eye(30), np.arange(29.0), "x, y"),
        (np.eye(10), np.arange(10.0), "examples"),
        (np.full((30, 2), np.nan), np.arange(30.0), "x"),
        (np.eye(30), np.arange(30), "classes"),
        (np.array([["a"] * 2] * 30), np.arange(30.0), "x"),
        (np.eye(30) * 1e200, np.arange(30.0), "x"),
    ],
)
def test_bad_data_are_refused_in_one_line(x: Array, y: Array, about: str) -> None:
    with refused(f"discover: {about}"):
        dataset(x, y)


def test_constant_and_repeated_inputs_and_twenty_examples_are_an_answer() -> None:
    draw = np.random.default_rng(6)
    x = draw.normal(size=(20, 2))
    found = ms.discover(np.c_[x, np.ones(20), x[:, 0]], x[:, 0] ** 2)
    assert all(
        one["kind"] == "finite" and one["inputs"] == [0] for one in found.symmetries
    )  # x0 to -x0 holds
    assert any("constant" in text for text in found.notes)
    assert any("repeat" in text for text in found.notes)


def test_tables_and_bad_files(tmp_path: Path) -> None:
    x, y = turning(40, 7)
    lines = ["a,b,c,out"] + [",".join(map(str, (*row, value))) for row, value in zip(x, y, strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    found = read_dataset(tmp_path / "table.csv", outputs="out")
    np.testing.assert_allclose(found.x, x)
    assert found.input_names == ("a", "b", "c")
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    for arguments, about in [
        ([str(tmp_path / "table.csv")], f"{tmp_path / 'table.csv'}: --outputs"),
        ([str(tmp_path / "broken.npz")], str(tmp_path / "broken.npz")),
        ([str(tmp_path / "none.npz")], str(tmp_path / "none.npz")),
        ([str(tmp_path / "table.csv"), "--outputs", "out", "--tolerance", "2"], "tolerance"),
        (
            [str(tmp_path / "table.csv"), "--outputs", "out", "--no-finite", "--no-continuous"],
            "continuous, finite",
        ),
    ]:
        refused_command(["discover", *arguments, "--out", tmp_path / "x"], about)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_cannot_be_is_refused_before_the_search(seed: int) -> None:
    with refused("seed", seed):
        ms.discover(np.eye(30), np.arange(30.0), seed=seed)


def test_a_claim_that_another_model_explains_better_is_refused() -> None:
    def fitted(evidence: float) -> SymmetricFit:
        no_features = Features(np.zeros((0, 2, 3)), "plain", np.zeros(0), np.ones(0))
        return SymmetricFit(no_features, Hyper(None, 0.1, evidence))

    def claim(name: str, dimension: int) -> Claim:
        return Claim("continuous", name, dimension, (), (0, 1), (), 1e-4, 0.0, (-0.1, 0.1), 40)

    large, small = claim("so(5)", 10), claim("so(4)", 6)
    best, refused = likeliest(
        [Explained("rotations", small, fitted(50.0)), Explained("affine", large, fitted(20.0))]
    )
    assert best is not None
    assert best.claim is small
    assert refused == [CandidateVerdict("continuous", "affine", (ExplainedBetter("so(5)"),))]
    # A model that is not claimed itself refutes too; equal evidence leaves the larger algebra.
    assert (
        likeliest([Explained("rotations", None, fitted(50.0)), Explained("affine", large, fitted(20.0))])[0]
        is None
    )
    best, refused = likeliest(
        [Explained("rotations", small, fitted(50.0)), Explained("affine", large, fitted(49.0))]
    )
    assert best is not None
    assert (best.claim, refused) == (large, [])
    assert likeliest([]) == (None, [])


def test_what_a_symmetric_model_leaves_has_to_be_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = turning(120, 0)
    assert ms.discover(x, y, finite=False).symmetries
    # A flexible model that is far above the floor shows nothing about what lies below it.
    monkeypatch.setattr(
        "metasym.discovery.continuous.invariance_claims._left_over", lambda *_: (0.001, 0.005, 0.05)
    )
    found = ms.discover(x, y, finite=False)
    assert not found.symmetries
    assert NotShownToBeNoise("so(2)", 0.001, 0.05) in found.verdict.reasons
    assert found.verdict.status is Status.UNDECIDED
    monkeypatch.setattr(
        "metasym.discovery.continuous.invariance_claims._left_over", lambda *_: (0.02, 0.03, 0.05)
    )
    assert ms.discover(x, y, finite=False).symmetries


def test_the_plain_model_is_the_one_to_use_where_it_errs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(120, 3))
    y = np.cos(x[:, 0]) * x[:, 1] + x[:, 1] * x[:, 2]
    assert ms.discover(x, y, continuous=False).symmetries
    real = FiniteModel.predict
    monkeypatch.setattr(FiniteModel, "predict", lambda self, fit, x: real(self, fit, x) + 1.0)
    found = ms.discover(x, y, continuous=False)
    assert found.symmetries  # what is claimed stays
    assert any("its error inside the training examples is smaller" in note for note in found.notes)
    with torch.no_grad():
        assert np.abs(found.model(torch.tensor(x)).numpy() - y).mean() < 0.05


def test_a_space_that_brackets_leave_ends_its_own_search_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in images of 6 x 6, whose search takes too long for a test: what it finds is no algebra but nearly one."""

    def nearly(*_: object) -> None:
        raise MetasymError("expected a space closed under brackets")

    monkeypatch.setattr(invariance_claims, "LieAlgebra", nearly)
    x, y = turning(120, 0)
    found = ms.discover(x, y)
    assert all(one["kind"] == "finite" for one in found.symmetries)
    assert any(one["kind"] == "continuous" for one in found.refused)
    assert found.symmetries or any(one["kind"] == "finite" for one in found.refused)


def test_outputs_that_vary_in_no_example_to_fit_to_are_one_line() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = np.zeros(40)
    y[np.random.default_rng([0, 1]).permutation(40)[0]] = 1  # the first of the split is held out
    with refused("y", "a constant"):
        ms.discover(x, y)
