"""Sums of digits with the nonlinear network of Yeh et al. (AISTATS 2022): which positions share their weights.

    python -m studies.number_sums --seeds 3000-3004
    python -m studies.number_sums --partitions --seeds 3100-3199   # no network is trained: seconds
    python -m studies.number_sums --table
    python -m studies.number_sums --figure docs/figures/number-sums

The setting is that of their code: K digits from 1 to 9; y is their sum with weights 1, or -2 and 1 in turn, up to a
half off; 100 + 150 examples to learn from, 250 to stop by, and test sums without noise. The network embeds every
digit, applies a linear layer and a ReLU at each position, adds the positions up and ends in a linear layer. What is
sought is the partition of positions into those with equal layers. ``ms.shared_parameters`` finds it from the 250
examples, a vector for each position; the same network is then trained with that partition, with the true one, and
without sharing. One JSON file a setting and seed, and one for partitions alone.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

import metasym as ms
from metasym.report.drawing import figure_files
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks import seeded
from studies.sharing import Array, Labels, partition_distance

LENGTHS = (2, 4, 6, 8, 10)
PATTERNS = {"equal": (1.0,), "two-weights": (-2.0, 1.0)}
LEARN, STOP, TEST = 250, 250, 20_000
_EMBEDDED, _HIDDEN = 500, 50
_PATIENCE, _MOST_STEPS = 1000, 100_000


def digits(draw: np.random.Generator, weights: Array, count: int, noise: float) -> tuple[Array, Array]:
    """Digits ``[count, K]`` and their weighted sums ``[count]``."""
    x = draw.integers(1, 10, size=(count, len(weights))).astype(float)
    return x, x @ weights + draw.uniform(-noise, noise, size=count)


class SharedSum(nn.Module):
    """The network; positions of one part of ``partition`` have one linear layer."""

    def __init__(self, partition: Labels, generator: torch.Generator) -> None:
        super().__init__()
        parts, self.place = np.unique(partition, return_inverse=True)
        self.emb = nn.Parameter(torch.randn(10, _EMBEDDED, generator=generator))
        bound = (6 / (_EMBEDDED * len(partition) + _HIDDEN * len(partition))) ** 0.5
        draw = torch.rand(len(parts), _HIDDEN, _EMBEDDED, generator=generator)
        self.weights = nn.Parameter((2 * draw - 1) * bound)
        self.bias = nn.Parameter(0.2 * torch.rand(len(parts), 1, _HIDDEN, generator=generator) - 0.1)
        out = 2 * torch.rand(1, _HIDDEN + 1, generator=generator) - 1
        self.out = nn.Parameter(out / _HIDDEN**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Digits ``[examples, K]`` to ``[examples]``."""
        # All that a layer gives of a digit, once for each of ten digits in place of once for each example.
        table = torch.relu(self.emb @ self.weights.mT + self.bias)  # [parts, 10, hidden]
        pooled = table[torch.from_numpy(self.place), x].sum(1)
        return pooled @ self.out[0, :-1] + self.out[0, -1]


def trained_error(
    partition: Labels,
    learn: tuple[Array, Array],
    stop: tuple[Array, Array],
    test: tuple[Array, Array],
    seed: int,
) -> dict[str, float]:
    """Test errors after Adam on all examples at once, stopped when ``stop`` no longer improves."""
    mean, spread = learn[1].mean(), learn[1].std()
    data = [
        (torch.tensor(x, dtype=torch.int64), torch.tensor((y - mean) / spread).float())
        for x, y in (learn, stop, test)
    ]
    model = SharedSum(partition, seeded(seed))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    falling = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=1000)
    best, best_state, left = np.inf, model.state_dict(), _PATIENCE
    for _ in range(_MOST_STEPS):
        loss = (model(data[0][0]) - data[0][1]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step(float(loss.detach()))
        with torch.no_grad():
            held_out = float((model(data[1][0]) - data[1][1]).abs().mean())
        left -= 1
        if held_out < best / 1.0001:
            best, left = held_out, _PATIENCE
            best_state = {name: value.clone() for name, value in model.state_dict().items()}
        if left == 0:
            break
    model.load_state_dict(best_state)
    with torch.no_grad():
        apart = spread * (model(data[2][0]) - data[2][1]).double()
        right = (torch.round(mean + spread * model(data[2][0]).double()) == torch.tensor(test[1])).double()
    return {
        "mae": float(apart.abs().mean()),
        "mse": float((apart**2).mean()),
        "accuracy": float(right.mean()),
    }


def found_partition(learn: tuple[Array, Array]) -> Labels:
    """Positions with equal functions of their digit, by ``ms.shared_parameters``.

    The network adds positions up, so that what it can represent is one function of the digit for each position. Eight
    contrasts of nine digits span those but for a constant, which is the mean's.
    """
    x, y = learn
    contrasts = np.linalg.svd(np.eye(9) - 1 / 9)[0][:, :8]
    features = contrasts[x.astype(int) - 1]
    found = ms.shared_parameters(features - features.mean(0), y - y.mean(), zeros=False, opposite=False)
    return found.labels


def run(pattern: str, length: int, seed: int, folder: Path) -> dict[str, Any]:
    """One setting and seed, or what was found when it was made."""
    path = folder / f"{pattern}-{length}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    draw, weights = _draw(pattern, length, seed)
    learn, stop = (digits(draw, weights, count, 0.5) for count in (LEARN, STOP))
    test = digits(draw, weights, TEST, 0.0)
    began = time.perf_counter()
    found = found_partition(learn)
    seconds = time.perf_counter() - began
    partitions = {
        "found": found,
        "true": np.unique(weights, return_inverse=True)[1],
        "none": np.arange(length),
    }
    errors: dict[tuple[int, ...], dict[str, float]] = {}
    for labels in partitions.values():  # equal partitions are one network
        if tuple(labels) not in errors:
            errors[tuple(labels)] = trained_error(labels, learn, stop, test, seed)
    result = {
        "pattern": pattern,
        "length": length,
        "seed": seed,
        "partition": found.tolist(),
        "distance": partition_distance(found, partitions["true"]),
        "errors": {name: errors[tuple(labels)] for name, labels in partitions.items()},
        "seconds": seconds,
        "command": f"python -m studies.number_sums --patterns {pattern} --lengths {length} --seeds {seed}",
        "commit": commit(),
    }
    write_json(path, result)
    return result


def _draw(pattern: str, length: int, seed: int) -> tuple[np.random.Generator, Array]:
    return np.random.default_rng([seed, length, 73]), np.resize(PATTERNS[pattern], length)


def partitions(seeds: range, folder: Path) -> dict[str, Any]:
    """Distances of the partitions that are found to the true ones, for every setting and seed; no network."""
    distances: dict[str, list[int]] = {}
    for pattern in PATTERNS:
        for length in LENGTHS:
            found = distances[f"{pattern}-{length}"] = []
            for seed in seeds:
                draw, weights = _draw(pattern, length, seed)
                labels = found_partition(digits(draw, weights, LEARN, 0.5))
                found.append(partition_distance(labels, np.unique(weights, return_inverse=True)[1]))
    command = f"python -m studies.number_sums --partitions --seeds {seeds[0]}-{seeds[-1]}"
    result = {"seeds": [*seeds], "distances": distances, "command": command, "commit": commit()}
    write_json(folder / "partitions.json", result)
    return result


def stored(folder: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """All runs by setting."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for pattern in PATTERNS:
        for length in LENGTHS:
            paths = sorted(folder.glob(f"{pattern}-{length}-*.json"))
            if paths:
                found[pattern, length] = [json.loads(path.read_text()) for path in paths]
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """The mean and half of its 95 % interval (t over seeds)."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return float(np.mean(values)), float(half)


def table(folder: Path) -> str:
    """Means over seeds with 95 % intervals: partition distance, test errors, and what sharing gains, paired."""
    lines = [
        "| weights | K | seeds | partition distance | MAE with the found partition | true partition | no sharing "
        "| no sharing minus found, paired | exact sums: found | no sharing |",
        "|---" * 10 + "|",
    ]
    for (pattern, length), runs in stored(folder).items():
        maes = {arm: [one["errors"][arm]["mae"] for one in runs] for arm in ("found", "true", "none")}
        apart = [none - found for none, found in zip(maes["none"], maes["found"], strict=True)]
        exact = {arm: 100 * np.mean([one["errors"][arm]["accuracy"] for one in runs]) for arm in maes}
        cells = [
            pattern,
            f"{length}",
            f"{len(runs)}",
            f"{np.mean([one['distance'] for one in runs]):.2g}",
            *("{:.3f} ± {:.3f}".format(*interval(maes[arm])) for arm in maes),
            "{:+.3f} ± {:.3f}".format(*interval(apart)),
            *(f"{exact[arm]:.1f} %" for arm in ("found", "none")),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if (folder / "partitions.json").exists():
        every = [
            d
            for one in json.loads((folder / "partitions.json").read_text())["distances"].values()
            for d in one
        ]
        wrong = sum(d > 0 for d in every)
        most = 100 * float(stats.beta.ppf(0.95, wrong + 1, len(every) - wrong))
        lines += ["", f"{wrong} of {len(every)} partitions wrong: at most {most:.2g} % with 95 % confidence"]
    return "\n".join(lines)


def figure(folder: Path, to: Path) -> list[Path]:
    """Mean absolute error over the number of digits, a panel for each kind of weights."""
    known = stored(folder)
    arms = {"found": ("found partition", "o-", "tab:blue"), "true": ("true partition", "x", "black"),
            "none": ("no sharing", "^:", "0.5")}  # fmt: skip
    with figure_files(to, 7, 3) as (drawing, files):
        grid = drawing.subplots(1, len(PATTERNS), sharey=True)
        for axes, pattern in zip(grid, PATTERNS, strict=True):
            lengths = [length for kind, length in known if kind == pattern]
            for arm, (words, style, color) in arms.items():
                made = [interval([one["errors"][arm]["mae"] for one in known[pattern, k]]) for k in lengths]
                means, halves = np.array(made).reshape(-1, 2).T
                axes.errorbar(
                    lengths, means, halves, fmt=style, color=color, ms=4, lw=1, capsize=2, label=words
                )
            axes.set(title=f"weights: {pattern}", xlabel="digits in a sum", ylim=(0, None))
        grid[0].set_ylabel("mean absolute error of sums")
        grid[0].legend(fontsize=7)
    return files


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--patterns", nargs="*", default=[*PATTERNS], choices=[*PATTERNS])
    parser.add_argument("--lengths", nargs="*", type=int, default=[*LENGTHS], metavar="K")
    parser.add_argument("--seeds", default="3000-3004", help="such as 3000-3004")
    parser.add_argument("--out", type=Path, default=Path("results/number_sums"))
    parser.add_argument("--table", action="store_true", help="print what is there")
    parser.add_argument("--figure", type=Path, help="draw what is there, as PNG and SVG")
    parser.add_argument("--partitions", action="store_true", help="find partitions alone, train nothing")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    if options.table:
        print(table(options.out))
        return
    if options.figure is not None:
        print(*figure(options.out, options.figure))
        return
    if options.partitions:
        print(partitions(range(int(first), int(last or first) + 1), options.out)["distances"])
        return
    for length in options.lengths:
        for pattern in options.patterns:
            for seed in range(int(first), int(last or first) + 1):
                one = run(pattern, length, seed, options.out)
                print(pattern, length, seed, one["distance"], one["errors"], flush=True)


if __name__ == "__main__":
    main()
