"""Projection on the pattern, and symmetries stored and put into other models."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import metasym as ms
from metasym.storage.serialization import CheckpointError
from tests.inspection.planted import noisy, of_group, turned
from tests.refusals import refused

G = ms.groups


def linear(U: Tensor, n: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    model = nn.Linear(n, len(U) // n, bias=False, dtype=dtype)
    return ms.reparameterize(model, lambda name, m: ms.DenseSymmetry(m.weight.shape, U=U.to(dtype)))


def matrix(model: nn.Module) -> Tensor:
    return next(iter(ms.symmetries(model).values())).matrix().detach()


def test_projection_makes_the_layer_exact() -> None:
    U, (_, n) = of_group(G.cyclic(12))
    model = linear(noisy(turned(U, 144), 0.1), n)
    before = matrix(model).clone()
    report = ms.inspect(model)
    assert report[0].errors is not None
    assert max(report[0].errors.errors) > 1e-3
    (done,) = ms.project(model, report)
    assert done.projected
    assert 0 < done.change < 0.2
    after = ms.inspect(model)[0]
    assert after.group is not None
    assert after.group.name == "Z_12"
    assert after.errors is not None
    assert max(after.errors.errors) < 1e-6
    assert after.effective_filter_size == 12
    # The oracle: the mean over the classes is the mean over the group.
    average = torch.stack([before.reshape(12, 12, -1).roll((s, s), (0, 1)) for s in range(12)]).mean(0)
    assert torch.allclose(matrix(model), average.reshape(144, -1), atol=1e-6)
    x = torch.randn(4, 12)
    ms.testing.assert_equivariant(model, x, G.cyclic(12), G.cyclic(12))


def test_projection_of_signs_zeros_and_kernels() -> None:
    flip = torch.diag(torch.tensor([1.0, -1.0, 1.0, -1.0])).double()
    swap = torch.eye(4, dtype=torch.float64)[[1, 0, 3, 2]]
    group = G.from_generators([flip @ swap])
    U, (_, n) = of_group(group)
    model = linear(noisy(U, 0.05), n)
    ms.project(model, ms.inspect(model))
    assert ms.inspect(model)[0].group is not None
    assert ms.inspect(model)[0].group.error < 1e-6  # type: ignore[union-attr]
    basis = ms.groups.conv_basis(3, 8, fields_out=2)
    conv = nn.Conv2d(1, 16, 3, bias=False)
    bank = noisy(basis.orthonormal(), 0.1).float()
    ms.reparameterize(conv, lambda name, m: ms.DenseSymmetry(m.weight.shape, U=bank))
    assert max(ms.inspect(conv)[0].errors.errors) > 1e-2  # type: ignore[union-attr]
    ms.project(conv, ms.inspect(conv))
    projected = ms.inspect(conv, "rotations:8")[0]
    assert max(projected.errors.errors) < 1e-6  # type: ignore[union-attr]
    assert torch.linalg.matrix_rank(matrix(conv)) == basis.dimension


def test_nothing_to_project_on_is_an_error() -> None:
    model = linear(torch.eye(25), 5)
    with refused("report", None):
        ms.project(model, ms.inspect(model))
    other = ms.inspect(nn.Sequential(linear(torch.eye(25), 5)))
    with refused("report", ["0"]):
        ms.project(model, other)
    assert torch.equal(matrix(model), torch.eye(25))


def test_a_symmetry_moves_to_another_model(tmp_path: Path) -> None:
    U, (_, n) = of_group(G.cyclic(6))
    source = linear(noisy(U, 0.02), n)
    report = ms.save_symmetry(source, tmp_path / "found.safetensors")
    assert report == ms.inspect(source)
    saved = ms.load_symmetry(tmp_path / "found.safetensors")
    assert saved.report == report
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
    ms.load_symmetry(tmp_path / "found.safetensors", net)  # the only layer of that shape
    assert list(ms.symmetries(net)) == ["0"]
    assert torch.equal(matrix(net), matrix(source))
    parts = ms.split(net)
    assert not parts.U
    assert len(parts.frozen) == 1
    assert parts.v["0.parametrizations.weight.original"].shape == (6,)
    twice = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)).double()
    saved.apply(twice, {"": "1"})
    assert list(ms.symmetries(twice)) == ["1"]
    assert matrix(twice).dtype == torch.float64


def test_only_the_dominant_directions(tmp_path: Path) -> None:
    U, (_, n) = of_group(G.cyclic(6))
    ms.save_symmetry(linear(noisy(turned(U, 36), 0.05), n), tmp_path / "s.safetensors")
    model = ms.load_symmetry(tmp_path / "s.safetensors", nn.Linear(6, 6), dominant_only=True)
    assert ms.split(model).v["parametrizations.weight.original"].shape == (6,)


def test_kronecker_and_joint_symmetries_are_stored(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    ms.reparameterize(net, "kronecker")
    with torch.no_grad():
        for p in ms.split(net).U.values():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
    ms.save_symmetry(net, tmp_path / "k.safetensors")
    fresh = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    ms.load_symmetry(tmp_path / "k.safetensors", fresh)
    for name, symmetry in ms.symmetries(net).items():
        assert torch.equal(symmetry.matrix(), ms.symmetries(fresh)[name].matrix())
    joint = ms.reparameterize(nn.Linear(4, 3), "dense", bias="joint", filter_size=5)
    ms.save_symmetry(joint, tmp_path / "j.safetensors")
    again = ms.load_symmetry(tmp_path / "j.safetensors", nn.Linear(4, 3))
    assert torch.equal(matrix(again), matrix(joint))


def test_what_does_not_fit_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    U, (_, n) = of_group(G.cyclic(6))
    ms.save_symmetry(nn.Sequential(linear(U, n)), path)
    with refused("layer '0'", (5, 6)):
        ms.load_symmetry(path, nn.Sequential(nn.Linear(6, 5)))
    with refused("layer '0'", "'a' (6, 5)"):
        ms.load_symmetry(path, nn.ModuleDict({"a": nn.Linear(5, 6)}))
    with refused("layers", "x"):
        ms.load_symmetry(path, nn.Sequential(nn.Linear(6, 6)), {"x": "0"})
    learner = ms.MAML(nn.Linear(6, 6), loss=F.mse_loss)
    ms.save(learner, tmp_path / "learner.safetensors")
    with refused(str(tmp_path / "learner.safetensors"), "another metasym file", kind=CheckpointError):
        ms.load_symmetry(tmp_path / "learner.safetensors")
    with refused(str(tmp_path / "none.safetensors"), os.strerror(errno.ENOENT), kind=CheckpointError):
        ms.load_symmetry(tmp_path / "none.safetensors")
    path.write_bytes(path.read_bytes()[:-3])
    with refused(str(tmp_path / "s.safetensors"), "other content", kind=CheckpointError):
        ms.load_symmetry(path)


def test_a_frozen_symmetry_adapts_from_one_example(tmp_path: Path) -> None:
    """Circulant weights are determined by one example, if one knows that they are circulant."""
    U, (_, n) = of_group(G.cyclic(8))
    ms.save_symmetry(linear(U, n), tmp_path / "s.safetensors")
    model = ms.load_symmetry(tmp_path / "s.safetensors", nn.Linear(8, 8, bias=False))
    plain = nn.Linear(8, 8, bias=False)
    W = (U @ torch.randn(8, dtype=U.dtype, generator=torch.Generator().manual_seed(0))).reshape(8, 8).float()
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    errors = []
    for start in (model, plain):
        learner = ms.MAML(start, loss=F.mse_loss, solver="ridge", penalty=1e-4)
        adapted = learner.adapt(ms.Batch(x[:1], x[:1] @ W.T))
        errors.append(float(F.mse_loss(adapted(x[1:]), x[1:] @ W.T).detach()))
    assert errors[0] < 1e-3 < 0.1 < errors[1]
