"""Two bodies as LieGAN has them: the generator that ``discover`` finds, no blocks told, and what it is worth.

    python -m studies.two_bodies --seeds 3000-3004
    python -m studies.two_bodies --table
    python -m studies.two_bodies --figure docs/figures/two-bodies

Orbits as in the code of Hamiltonian networks, from which LieGAN takes them: equal masses, starts in a square, nearly
circular, 50 moments in 20 units of time; the state of both bodies (8 numbers) to the next moment. Orbits of the test
are not those of training. The second body is the first with the other sign, so the data show four of eight
dimensions: generators are compared there. One JSON file a seed; a seed that is there is not made again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import expm
from torch import nn

import metasym as ms
from metasym.models.start import started
from metasym.report.drawing import figure_files
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks import seeded
from studies.known_functions import Array, kepler_flow
from studies.known_polynomials import independent
from studies.side_by_side import add_where, elsewhere

MOMENTS, TIME = 50, 20.0
PUBLISHED = {
    "LieGAN, given the 2 x 2 blocks": (0.9998, 3.8e-5),
    "LieGAN, not masked": (0.46, None),
    "Augerino+": (0.67, None),
    "SymmetryGAN": (0.42, None),
    "the true generator": (1.0, 1.4e-5),
}
"""Cosine, and test error of a network trained with augmentation by it: Yang et al., ICML 2023, and their code."""


def orbits(draw: np.random.Generator, count: int) -> Array:
    """``[count, 50, 8]``: places and momenta of the first body, then of the second."""
    place = draw.uniform(0.5, 1.5, (count, 2))
    around = place[:, ::-1] * np.array([-1.0, 1.0])
    length = np.linalg.norm(place, axis=1, keepdims=True)
    momentum = around / (2 * length**1.5) * (1 + 0.05 * draw.normal(size=(count, 1)))
    found = [np.c_[place, momentum]]
    for _ in range(MOMENTS - 1):
        place, momentum = kepler_flow(place, momentum, TIME / (MOMENTS - 1), steps=60)
        found.append(np.c_[place, momentum])
    first = np.stack(found, axis=1)
    return np.concatenate([first, -first], axis=2)


def pairs(draw: np.random.Generator, orbit_count: int, count: int) -> tuple[Array, Array]:
    """``count`` states at random moments of new orbits, and the next ones."""
    paths = orbits(draw, orbit_count)
    now, later = paths[:, :-1].reshape(-1, 8), paths[:, 1:].reshape(-1, 8)
    chosen = draw.choice(len(now), count, replace=False)
    return now[chosen], later[chosen]


def true_generator() -> Array:
    """``[8, 8]``: all four pairs of numbers turn."""
    return np.kron(np.eye(4), np.array([[0.0, -1.0], [1.0, 0.0]]))


def on_the_data(generator: Array, x: Array) -> Array:
    """``[8, 8]``: a claimed generator moves inputs that say their own; here it moves all, where the data are."""
    used = independent(x)
    follow = np.linalg.lstsq(x[:, used], x, rcond=None)[0]  # [used, 8]
    found = np.zeros((8, 8))
    found[:, used] = follow.T @ generator[np.ix_(used, used)]
    return found


def cosine(generator: Array, x: Array) -> float:
    """Of a generator with the true one, both on the space that the data span."""
    _, sizes, rows = np.linalg.svd(x, full_matrices=False)
    span = rows[sizes > 1e-9 * sizes[0]].T
    one, two = (span.T @ matrix @ span for matrix in (generator, true_generator()))
    return float(abs((one * two).sum()) / np.linalg.norm(one) / np.linalg.norm(two))


def network_error(
    generator: Array | None, train: tuple[Array, Array], test: tuple[Array, Array], seed: int, steps: int
) -> float:
    """Test MSE of a network of three hidden layers, trained with every batch turned by random members of the group.

    The angle is normal with deviation 1, as in LieGAN's code; None: no augmentation.
    """
    g = seeded(seed)
    x, y, x_test, y_test = (torch.tensor(part, dtype=torch.float32) for part in (*train, *test))
    turns = None
    if generator is not None:  # made ahead; every example of a batch takes one of them at random
        angles = torch.randn(256, generator=g).double().numpy()
        whole = generator / np.linalg.norm(generator) * np.linalg.norm(true_generator())
        turns = torch.tensor(np.stack([expm(angle * whole) for angle in angles]), dtype=torch.float32)
    sizes = (8, 128, 128, 128, 8)
    layers = [part for a, b in itertools.pairwise(sizes) for part in (_layer(a, b, g), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = torch.randint(len(x), (64,), generator=g)
        a, b = x[batch], y[batch]
        if turns is not None:
            by = turns[torch.randint(len(turns), (64,), generator=g)]
            a, b = (torch.einsum("bij,bj->bi", by, part) for part in (a, b))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        falling.step()
    with torch.no_grad():
        return float(nn.functional.mse_loss(model(x_test), y_test))


def _layer(inputs: int, outputs: int, generator: torch.Generator) -> nn.Module:
    return started(nn.Linear, inputs, outputs, generator=generator, bias=True)


def run(seed: int, folder: Path, count: int = 1000, steps: int = 10_000) -> dict[str, Any]:
    """One run, or what it found when it was made."""
    path = folder / f"{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    draw = np.random.default_rng([seed, 41])
    train, test = pairs(draw, count // 4, count), pairs(draw, count // 4, count)
    began = time.perf_counter()
    found = ms.discover(*train, seed=seed, finite=False)
    seconds = time.perf_counter() - began
    claims = [one for one in found.symmetries if one["kind"] == "continuous"]
    matrices = [on_the_data(np.array(A)[:, :8], train[0]) for one in claims for A in one["generators"]]
    with torch.no_grad():
        own = float(np.mean((found.model(torch.tensor(test[0])).numpy() - test[1]) ** 2))
    generators = {"none": None, "truth": true_generator(), "found": matrices[0] if matrices else None}
    errors = {
        name: network_error(matrix, train, test, seed, steps)
        for name, matrix in generators.items()
        if name != "found" or matrices
    }
    result = {
        "seed": seed,
        "examples": count,
        "claimed": [one["name"] for one in found.symmetries],
        "cosines": [cosine(matrix, train[0]) for matrix in matrices],
        "refused": [one["words"] for one in found.refused],
        "test_mse": own,
        "network_mse": errors,
        "seconds": seconds,
        "command": f"python -m studies.two_bodies --seeds {seed}",
        "commit": commit(),
    }
    write_json(path, result)
    return result


def stored(folder: Path) -> list[dict[str, Any]]:
    """All runs."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def table(folder: Path) -> str:
    """Ours beside the published numbers."""
    runs = stored(folder)
    cosines = [min(one["cosines"]) for one in runs if one["cosines"]]
    lines = ["| method | cosine with the true generator | test MSE |", "|---|---|---|"]
    refused = sum(not one["claimed"] for one in runs)
    shown = f"{min(cosines):.6f} at least, {refused} of {len(runs)} refused" if cosines else "all refused"
    lines.append(
        f"| ours, no prior knowledge; our own model | {shown} | {_spread([one['test_mse'] for one in runs])} |"
    )
    for name, words in (("found", "our generator"), ("truth", "the true generator"), ("none", "nothing")):
        errors = [one["network_mse"][name] for one in runs if name in one["network_mse"]]
        if errors:
            lines.append(f"| our network, augmented by {words} | | {_spread(errors)} |")
    for name, (angle, error) in PUBLISHED.items():
        lines.append(f"| {name} (published) | {angle} | {'' if error is None else f'{error:.2g}'} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    return f"{np.median(values):.2g} ({min(values):.2g} to {max(values):.2g})"


def figure(folder: Path, to: Path) -> list[Path]:
    """Test errors, ours by seed and the published ones."""
    runs = stored(folder)
    rows = {"our own model": [one["test_mse"] for one in runs]}
    for name, words in (("found", "our generator"), ("truth", "truth"), ("none", "nothing")):
        rows[f"network, augmented by {words}"] = [
            one["network_mse"][name] for one in runs if name in one["network_mse"]
        ]
    rows |= {f"{name}, published": [error] for name, (_, error) in PUBLISHED.items() if error is not None}
    with figure_files(to, 7, 2.6) as (drawing, files):
        axes = drawing.add_subplot()
        for place, errors in enumerate(rows.values()):
            axes.plot(errors, [place] * len(errors), "o", ms=4, color="tab:blue" if place < 4 else "0.5")
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.set(xscale="log", xlabel="test MSE")
    return files


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="3000-3004", help="such as 3000-3004")
    parser.add_argument("--out", type=Path, default=Path("results/two_bodies"))
    parser.add_argument("--table", action="store_true", help="print what is there")
    parser.add_argument("--figure", type=Path, help="draw what is there, as PNG and SVG")
    add_where(parser)
    options = parser.parse_args()
    if options.table:
        print(table(options.out))
    elif options.figure is not None:
        print(*figure(options.out, options.figure))
    else:
        first, _, last = options.seeds.partition("-")
        seeds = range(int(first), int(last or first) + 1)
        cells = [("--seeds", seed, "--out", options.out) for seed in seeds]
        if elsewhere(options, "studies.two_bodies", cells):
            return
        for seed in seeds:
            one = run(seed, options.out)
            print(seed, one["claimed"], one["cosines"], one["test_mse"], one["network_mse"], flush=True)


if __name__ == "__main__":
    main()
