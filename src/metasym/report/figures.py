"""The paper's pictures of what was learned, as PNG and SVG; readable in print and by the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from metasym import groups
from metasym.report.drawing import figure_files
from metasym.report.gauge import diagonal_spread, effective_filter_size, readable
from metasym.report.table_cells import Cell
from metasym.tasks.synthetic import FIELDS, WIDTH, Problem

SIGNED, SIZE = "PuOr", "cividis"
SHOWN_BLOCKS, SHOWN_ROWS = 20, 22
"""The paper shows the first 20 of 68 submatrices, cropped to 22 of 70 rows."""


def weight_figure(W: Tensor, path: Path, width: int = WIDTH) -> list[Path]:
    """A weight matrix ``[m, n]``, and the entries along each of its diagonals."""
    with figure_files(path, 9.6, 4.4) as (figure, files):
        left, right = figure.subplots(1, 2, width_ratios=[1.1, 1])
        limit = float(W.abs().max())
        image = left.imshow(W.numpy(), cmap=SIGNED, vmin=-limit, vmax=limit, interpolation="nearest")
        left.set(title="Learned weight W of one test task", xlabel="input", ylabel="output")
        figure.colorbar(image, ax=left, shrink=0.82)
        offsets = range(-5, width + 6)
        means, lows, highs = zip(*(_quartiles(W.diagonal(o)) for o in offsets), strict=True)
        errors = [
            [m - low for m, low in zip(means, lows, strict=True)],
            [h - m for m, h in zip(means, highs, strict=True)],
        ]
        right.axhline(0, color="0.6", linewidth=0.8)
        right.errorbar(offsets, means, yerr=errors, fmt="o", color="#1b3a6b", capsize=3)
        right.set(
            title=f"Along the diagonals: {diagonal_spread(W, width):.1%} from a convolution",
            xlabel="diagonal (input − output)",
            ylabel="mean, and 5 to 95 % of the entries",
        )
    return files


def submatrices_figure(U: Tensor, inputs: int, path: Path) -> list[Path]:
    """The first submatrices pi(i) of U ``[m * n, k]`` in a readable gauge, by absolute value."""
    turned = readable(U, inputs).abs()
    blocks = turned.reshape(-1, inputs, turned.shape[1])
    shown = blocks[:SHOWN_BLOCKS, :SHOWN_ROWS]
    with figure_files(path, 10, 3.6) as (figure, files):
        axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for number, (axis, block) in enumerate(zip(axes, shown, strict=True)):
            image = axis.imshow(
                block.numpy(),
                cmap=SIZE,
                vmin=0,
                vmax=float(shown.max()),
                interpolation="nearest",
                aspect="auto",
            )
            axis.set_title(f"π({number})", fontsize=8)
            axis.set_xticks([])
            axis.set_yticks(range(0, len(block), 5))
            axis.tick_params(length=2, labelsize=8)
        axes[0].set_ylabel("input")
        figure.colorbar(image, ax=list(axes), shrink=0.82, label="absolute value", pad=0.01)
        figure.suptitle(
            f"Learned U: the first {len(shown)} of {len(blocks)} submatrices, {len(shown[0])} of {inputs} rows; "
            f"{effective_filter_size(U)} of {U.shape[1]} filter entries are used",
            fontsize=11,
        )
    return files


def filters_figure(W: Tensor, problem: Problem, path: Path) -> list[Path]:
    """The filters of a bank ``[channels, 1, k, k]``, one row for each regular field, rotated copies side by side."""
    order = W.shape[0] // FIELDS
    kind = problem.name.partition("/")[2]
    turns = order // 2 if kind.endswith("-flip") else order
    fields = W.reshape(FIELDS, order, *W.shape[-2:])
    w, basis = W.double().flatten(), problem.true_basis
    away = float(torch.linalg.vector_norm(w - basis @ (basis.T @ w)) / torch.linalg.vector_norm(w))
    with figure_files(path, 1.6 + 0.62 * order, 3.2) as (figure, files):
        axes = figure.subplots(FIELDS, order, squeeze=False)
        limit = float(W.abs().max())
        for row in range(FIELDS):
            for column in range(order):
                axis = axes[row, column]
                image = axis.imshow(
                    fields[row, column].numpy(), cmap=SIGNED, vmin=-limit, vmax=limit, interpolation="nearest"
                )
                axis.set_xticks([])
                axis.set_yticks([])
                if row == 0:
                    angle = f"{360 * (column % turns) // turns}°"
                    axis.set_title(angle if column < turns else f"{angle}\nflipped", fontsize=8)
            axes[row, 0].set_ylabel(f"field {row + 1}", fontsize=8)
        figure.colorbar(image, ax=axes.ravel().tolist(), shrink=0.82, pad=0.02)
        short = {"rot90": "90°", "rot45": "45°", "rot45-flip": "45° and flips"}[kind]
        title = f"Learned filters of one test task, {short}" if order > 4 else f"Learned filters, {short}"
        figure.suptitle(f"{title}: {away:.1%} from equivariant", fontsize=10)
    return files


def theoretical_figure(path: Path) -> list[Path]:
    """U of Proposition 1 for the rotations by 90 degrees of 3 x 3 images: the blocks pi(g), side by side."""
    group = groups.image_rotations(3, order=4)
    blocks = groups.symmetry_matrix(group).reshape(group.order, 9, 9)
    with figure_files(path, 8.4, 2.8) as (figure, files):
        axes = figure.subplots(1, len(blocks))
        for number, (axis, block) in enumerate(zip(axes, blocks, strict=True)):
            axis.imshow(block.numpy(), cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
            axis.set_xticks(range(9))
            axis.set_yticks(range(9))
            axis.tick_params(length=0, labelsize=7)
            axis.set_title(f"π(rotation by {90 * number}°)", fontsize=9)
            axis.set_xlabel("entry of the filter", fontsize=8)
        axes[0].set_ylabel("pixel", fontsize=8)
        figure.suptitle("The symmetry matrix of C₄ on 3 × 3 pixels (Proposition 1)", fontsize=11)
    return files


def sizes_figure(cells: Sequence[Cell], path: Path) -> list[Path]:
    """MSE over the size of the images, one panel for each problem: MAML-Conv, MSR-Conv and the oracle."""
    looks = {
        "maml-conv": ("#D55E00", "s", "MAML-Conv, tuned"),
        "msr-conv": ("#0072B2", "o", "MSR-Conv"),
        "oracle-conv": ("#000000", "^", "oracle: the true space"),
    }
    problems = list(dict.fromkeys(cell.name.rpartition("/")[0] for cell in cells))
    with figure_files(path, 3.2 * len(problems), 3.2) as (figure, files):
        axes = figure.subplots(1, len(problems), squeeze=False, sharey=True)[0]
        for axis, problem in zip(axes, problems, strict=True):
            for method, (colour, marker, label) in looks.items():
                mine = [c for c in cells if c.name == f"{problem}/{method}"]
                if mine:
                    axis.errorbar(
                        [c.image_size for c in mine],
                        [c.mean for c in mine],
                        [c.ci95 for c in mine],
                        color=colour,
                        marker=marker,
                        markersize=4,
                        linewidth=1.2,
                        label=label,
                    )
            sizes = sorted({c.image_size for c in cells})
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(sizes, [str(size) for size in sizes])
            axis.minorticks_off()
            axis.set_xlabel("image size")
            axis.set_title(problem.removeprefix("rotation/"), fontsize=9)
            axis.grid(alpha=0.3, linewidth=0.5)
        axes[0].set_ylabel("MSE on test tasks, one inner step")
        axes[-1].legend(fontsize=7, frameon=False)  # the first panel may lack methods
    return files


def _quartiles(values: Tensor) -> tuple[float, float, float]:
    ends = torch.quantile(values, torch.tensor([0.05, 0.95]))
    mean = float(values.mean())
    return mean, min(mean, float(ends[0])), max(mean, float(ends[1]))
