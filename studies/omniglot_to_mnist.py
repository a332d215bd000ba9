"""A symmetry that was learned on Omniglot, put into a network that learns MNIST.

    python -m studies.omniglot_to_mnist keep --msr RUN --maml RUN   # of metasym run, finished or not
    python -m studies.omniglot_to_mnist run --arms plain d8 --sizes 10 100
    python -m studies.omniglot_to_mnist table
    python -m studies.omniglot_to_mnist figure

Every arm (``studies/mnist_networks.py``) is trained on 10, 100, 1,000 and 3,000 images of MNIST, as many of each
digit, with and without augmentation (crops, flips, turns: Algorithm 2), and tested on 2,000 test images,
plain and augmented once. SGD with momentum, the same number of steps and the same images in the same order for all
arms. The step size is chosen out of the same five for every arm, on 500 validation images and a seed that is not
counted, for plain and for augmented tests apart. One JSON file an arm, size and kind of training; what it holds is
not made again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor

from metasym.models.conv_blocks import ConvNet
from metasym.report.drawing import figure_files
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks import seeded
from metasym.tasks.augment import paper_transform
from studies.mnist_networks import ARMS, NEEDS, Layerwise, keep, kept, network

RATES = (0.001, 0.004, 0.016, 0.064, 0.256)
CHOOSING_SEED = 100
TESTS = ("plain", "augmented")
HELD_OUT = 50_000
"""Training images come from before this place of MNIST's training set, validation images from behind it."""


@dataclass(frozen=True)
class Size:
    """How long training on so many images is, for every arm."""

    steps: int
    batch: int


SIZES = {10: Size(60, 10), 100: Size(150, 25), 1000: Size(200, 50), 3000: Size(300, 50)}


@dataclass(frozen=True, eq=False)
class Digits:
    """Images ``[n, 1, 28, 28]`` and labels."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Data:
    """MNIST as the study cuts it; ``few`` looks at fewer images, for a try."""

    train: Digits
    validation: Digits
    test: Digits

    @staticmethod
    def read(path: Path, few: bool = False) -> Data:
        """From ``mnist.npz``."""
        with np.load(path, allow_pickle=False) as stored:
            images, labels = (
                np.concatenate([stored[f"{k}_{n}"] for k in ("train", "test")]) for n in ("images", "label")
            )
        x, y = torch.from_numpy(images)[:, None].float() / 255, torch.from_numpy(labels).long()
        places = torch.randperm(60_000 - HELD_OUT, generator=seeded(7))[: 100 if few else 500] + HELD_OUT
        tested = slice(60_000, 60_200 if few else 62_000)
        parts = (slice(0, HELD_OUT), places, tested)
        return Data(*(Digits(x[part], y[part]) for part in parts))


def balanced(data: Digits, size: int, seed: int) -> Digits:
    """As many images of every digit, drawn by ``seed``."""
    order = torch.randperm(len(data.y), generator=seeded(seed))
    chosen = torch.cat([order[data.y[order] == digit][: size // 10] for digit in range(10)])
    return Digits(data.x[chosen], data.y[chosen])


def trained(model: ConvNet, data: Digits, size: Size, rate: float, seed: int, augmented: bool) -> ConvNet:
    """SGD with momentum and a rate that falls to 0; the draws depend on ``seed`` alone."""
    draw, transform = seeded(10_000 + seed), paper_transform()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate, momentum=0.9)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, size.steps)
    order, computed = torch.empty(0, dtype=torch.int64), Layerwise(model)
    for _ in range(size.steps):
        if len(order) < size.batch:
            order = torch.cat([order, torch.randperm(len(data.y), generator=draw)])
        batch, order = order[: size.batch], order[size.batch :]
        x = transform(data.x[batch], draw) if augmented else data.x[batch]
        optimizer.zero_grad()
        computed.backward(x, data.y[batch], F.cross_entropy)
        optimizer.step()
        falling.step()
    return model


def accuracies(model: ConvNet, data: Digits, seed: int, batch: int = 250) -> dict[str, float]:
    """Plain, and with every image transformed once; norms take the statistics of each 250 images, for all arms."""
    draw, transform = seeded(20_000 + seed), paper_transform()
    right, computed = dict.fromkeys(TESTS, 0), Layerwise(model)
    for x, y in zip(data.x.split(batch), data.y.split(batch), strict=True):
        for test in TESTS:
            shown = x if test == "plain" else transform(x, draw)
            right[test] += int((computed.outputs(shown).argmax(1) == y).sum())
    return {test: hits / len(data.y) for test, hits in right.items()}


def run(
    arm: str, size: int, augmented: bool, seeds: range, data: Data, folder: Path, learned: dict[str, Tensor]
) -> None:
    """Choose the step sizes, then train and test every seed; what the file holds is not made again."""
    path = _path(folder, arm, size, augmented)
    result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"chosen_on": {}, "runs": {}}

    def scored(seed: int, rate: float, on: Digits) -> dict[str, float]:
        began = time.process_time()
        model = network(arm, seed, learned)
        trained(model, balanced(data.train, size, seed), SIZES[size], rate, seed, augmented)
        found = accuracies(model, on, seed)
        result["processor_seconds"] = result.get("processor_seconds", 0.0) + time.process_time() - began
        return found

    def store() -> None:
        result.update(arm=arm, images=size, augmented=augmented, commit=commit())
        result["command"] = f"python -m studies.omniglot_to_mnist run --arms {arm} --sizes {size}"
        write_json(path, result)

    for rate in RATES:
        if str(rate) not in result["chosen_on"]:
            result["chosen_on"][str(rate)] = scored(CHOOSING_SEED, rate, data.validation)
            store()
    tried = result["chosen_on"]
    best = {test: max(RATES, key=lambda rate, test=test: tried[str(rate)][test]) for test in TESTS}
    result["rates"] = best
    for seed in seeds:
        if str(seed) not in result["runs"]:
            made = {rate: scored(seed, rate, data.test) for rate in sorted(set(best.values()))}
            result["runs"][str(seed)] = {test: made[best[test]][test] for test in TESTS}
            store()
            print(
                arm,
                size,
                "augmented" if augmented else "plain",
                seed,
                result["runs"][str(seed)],
                best,
                flush=True,
            )


def _path(folder: Path, arm: str, size: int, augmented: bool) -> Path:
    return folder / f"{arm}-{size}-{'augmented' if augmented else 'plain'}.json"


def stored(folder: Path) -> dict[tuple[str, int, bool], dict[str, Any]]:
    """All files with runs, by arm, size and whether training was augmented."""
    found = {}
    for arm in ARMS:
        for size in SIZES:
            for augmented in (False, True):
                path = _path(folder, arm, size, augmented)
                if path.exists() and (one := json.loads(path.read_text()))["runs"]:
                    found[arm, size, augmented] = one
    return found


def paired(one: dict[str, Any], base: dict[str, Any], test: str) -> tuple[float, float]:
    """Mean difference of the seeds that both have, and half of its 95 % interval (t)."""
    seeds = [seed for seed in one["runs"] if seed in base["runs"]]
    apart = np.array([one["runs"][seed][test] - base["runs"][seed][test] for seed in seeds])
    if len(apart) < 2:
        return float(apart.mean()), math.inf
    return float(apart.mean()), float(
        stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / len(apart) ** 0.5
    )


def table(folder: Path) -> str:
    """Accuracies in per cent; behind each the paired difference to the plain network trained the same way."""
    known = stored(folder)
    lines = []
    for test in TESTS:
        lines += [
            f"Tested {test}:",
            "",
            "| arm | training | " + " | ".join(f"{size:,}" for size in SIZES) + " |",
        ]
        lines.append("|---" * (2 + len(SIZES)) + "|")
        for augmented in (False, True):
            for arm, words in ARMS.items():
                cells = [_cell(known, arm, size, augmented, test) for size in SIZES]
                if any(cells):
                    lines.append(
                        f"| {words} | {'augmented' if augmented else 'plain'} | " + " | ".join(cells) + " |"
                    )
        lines.append("")
    return "\n".join(lines)


def _cell(known: dict[Any, dict[str, Any]], arm: str, size: int, augmented: bool, test: str) -> str:
    one, base = known.get((arm, size, augmented)), known.get(("plain", size, augmented))
    if one is None:
        return ""
    mean = 100 * np.mean([run[test] for run in one["runs"].values()])
    if arm == "plain" or base is None:
        return f"{mean:.1f}"
    apart, half = paired(one, base, test)
    if math.isinf(half):
        return f"{mean:.1f} ({100 * apart:+.1f}, one seed)"
    return f"{mean:.1f} ({100 * apart:+.1f} ± {100 * half:.1f})"


def figure(folder: Path, to: Path) -> list[Path]:
    """Accuracy over the number of images: two kinds of training, two of tests."""
    known = stored(folder)
    with figure_files(to, 8, 6) as (drawing, files):
        grid = drawing.subplots(2, 2, sharex=True)
        for row, augmented in zip(grid, (False, True), strict=True):
            for axes, test in zip(row, TESTS, strict=True):
                for arm, words in ARMS.items():
                    sizes = [size for size in SIZES if (arm, size, augmented) in known]
                    runs = [
                        [run[test] for run in known[arm, size, augmented]["runs"].values()] for size in sizes
                    ]
                    axes.plot(sizes, [100 * np.mean(r) for r in runs], "o-", ms=3, lw=1, label=words)
                kind = "augmented" if augmented else "plain"
                axes.set(xscale="log", title=f"trained {kind}, tested {test}", ylabel="accuracy, %")
        for axes in grid[1]:
            axes.set_xlabel("training images")
        grid[0][0].legend(fontsize=6)
    return files


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("keep", "run", "table", "figure"))
    parser.add_argument("--msr", type=Path, help="keep: the folder of the run of MSR")
    parser.add_argument("--maml", type=Path, help="keep: the folder of the run of MAML")
    parser.add_argument("--arms", nargs="*", default=[*ARMS], choices=[*ARMS])
    parser.add_argument("--sizes", nargs="*", type=int, default=[*SIZES], choices=[*SIZES])
    parser.add_argument("--seeds", default="0-2", help="such as 0-2")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/mnist.npz"))
    parser.add_argument("--out", type=Path, default=Path("results/transfer"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/omniglot-to-mnist"))
    parser.add_argument(
        "--quick", action="store_true", help="few images are looked at: for a try, with another --out"
    )
    options = parser.parse_args()
    if options.what == "keep":
        runs = {name: path for name in ("msr", "maml") if (path := getattr(options, name)) is not None}
        print(*keep(runs, options.out))
    elif options.what == "table":
        print(table(options.out))
    elif options.what == "figure":
        print(*figure(options.out, options.figure))
    else:
        first, _, last = options.seeds.partition("-")
        data = Data.read(options.data, options.quick)
        for size in options.sizes:
            for augmented in (False, True):
                for arm in options.arms:
                    learned = kept(NEEDS[arm], options.out) if arm in NEEDS else {}
                    run(
                        arm,
                        size,
                        augmented,
                        range(int(first), int(last or first) + 1),
                        data,
                        options.out,
                        learned,
                    )


if __name__ == "__main__":
    main()
