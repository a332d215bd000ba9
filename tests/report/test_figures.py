from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import torch

from metasym.paper import find
from metasym.report.figures import (
    filters_figure,
    submatrices_figure,
    theoretical_figure,
    weight_figure,
)
from metasym.report.gauge import diagonal_spread, effective_filter_size, readable
from metasym.runs.reproducing.experiment_run import run
from metasym.runs.reproducing.run_figures import draw_runs
from metasym.tasks.synthetic import mixing_weights, rotation, translation_basis


def convolution_U(generator: torch.Generator, columns: int = 20) -> torch.Tensor:
    """The exact U of width-3 convolution beside faint noise, columns mixed by a random rotation."""
    U = 0.001 * torch.randn(68 * 70, columns, generator=generator, dtype=torch.float64)
    U[:, :3] += translation_basis(mixing_weights(1, 0))
    mixed = torch.linalg.qr(torch.randn(columns, columns, generator=generator, dtype=torch.float64)).Q
    return U @ mixed


def test_the_readable_gauge_undoes_a_random_rotation(generator):
    U = convolution_U(generator)
    assert effective_filter_size(U) == 3
    blocks = readable(U, 70).reshape(68, 70, 3)
    for i in (0, 1, 31, 67):
        torch.testing.assert_close(blocks[i, i : i + 3], torch.eye(3, dtype=torch.float64), atol=0.02, rtol=0)
        others = blocks[i].clone()
        others[i : i + 3] = 0
        assert others.abs().max() < 0.02


def test_the_effective_size_of_a_u_without_a_gap_is_all_of_it(generator):
    exact = translation_basis(mixing_weights(1, 0))
    assert effective_filter_size(exact) == 3
    assert effective_filter_size(exact[:, :1]) == 1
    assert effective_filter_size(torch.randn(300, 5, generator=generator)) == 5
    assert effective_filter_size(torch.cat([exact, torch.zeros_like(exact)], dim=1)) == 3


def test_the_readable_gauge_keeps_what_u_u_transposed_says(generator):
    U = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    turned = readable(U, 6, size=4)
    torch.testing.assert_close(turned @ turned.T, U @ U.T)


def test_diagonal_spread_is_zero_for_convolutions_only(generator):
    W = (
        translation_basis(mixing_weights(1, 0)) @ torch.randn(3, generator=generator, dtype=torch.float64)
    ).reshape(68, 70)
    assert diagonal_spread(W, 3) < 1e-12
    assert diagonal_spread(torch.randn(68, 70, generator=generator), 3) > 0.9


def check(paths, expected: int) -> None:
    assert len(paths) == expected
    for path in paths:
        assert path.stat().st_size > 2000
        if path.suffix == ".svg":
            ElementTree.parse(path)  # well-formed
        else:
            assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_figures_are_written_and_the_same_every_time(tmp_path, generator):
    U = convolution_U(generator)
    W = U[:, 0].reshape(68, 70).float()
    problem = rotation("rot45-flip", 4, train_tasks=1, test_tasks=1)
    bank = problem.test.banks(torch.tensor([0]))[0]  # type: ignore[attr-defined]
    (tmp_path / "again").mkdir()
    drawn = []
    for folder in (tmp_path, tmp_path / "again"):
        drawn.append(
            weight_figure(W, folder / "weight")
            + submatrices_figure(U, 70, folder / "U")
            + filters_figure(bank, problem, folder / "filters")
            + theoretical_figure(folder / "theory")
        )
    check(drawn[0], 8)
    for first, second in zip(*drawn, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_figures_of_runs(tmp_path):
    options = {"outer_steps": 2, "train_tasks": 4, "test_tasks": 2}
    folders = []
    for name in ("translation/rank1/large/msr-fc", "rotation/rot90/msr-conv", "rotation/rot45/msr-conv"):
        folders.append(tmp_path / name)
        size = {"image_size": 6} if name.startswith("rotation/") else {}
        run(find(name, **options, **size), folders[-1], progress="silent")
    drawn = draw_runs(folders, tmp_path / "figures")
    check(drawn, 10)
    assert len({path.name for path in drawn}) == 10
