"""Families made to break certificates, and whether ``ms.learn`` says something false of them.

    python -m studies.certificate_attacks families --seeds 0:10 --out results/attacks/families.jsonl

Each kind knows the map of every task of its file. *Wrong*: a group is named whose ``defect_upper`` is below the true
relative root mean square defect over all tasks of the file; or of further tasks more differ than the stated share.
Seeds below 1,000 were used while thresholds were set; seeds from 1,000 on are fresh.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from studies.judged_runs import Array, Made, by_assumptions, rows, run_all, table
from studies.ordinary_families import FAMILIES
from studies.true_group import Element

Attack = Callable[[np.random.Generator], Made]
BASES = ("ring6", "path5", "star5", "prism", "two-trios", "grid2x3", "directed7")
_FURTHER = 2000


@dataclasses.dataclass
class Draw:
    """What most attacks begin with: a family, its maps and how they are observed."""

    generator: np.random.Generator

    def __post_init__(self) -> None:
        g = self.generator
        self.name = BASES[int(g.integers(len(BASES)))]
        self.tasks = int(g.choice([40, 60, 100, 160]))
        self.noise = float(g.choice([0.01, 0.03, 0.1]))
        self.maps = self.more(self.tasks)
        self.n = self.maps.shape[2]
        self.examples = 2 * self.n + 8

    def more(self, tasks: int) -> Array:
        """Maps of the family."""
        return FAMILIES[self.name](self.generator, tasks)

    def x(self) -> Array:
        """Gaussian inputs."""
        return self.generator.standard_normal((self.tasks, self.examples, self.n))

    def outputs(self, maps: Array, x: Array) -> tuple[Array, float]:
        """Without noise, and the noise's standard deviation."""
        y = np.einsum("tmn,ten->tem", maps, x)
        return y, self.noise * float(np.sqrt(np.mean(y**2)))

    def made(self, maps: Array, **more: object) -> Made:
        """Plain noise."""
        x = self.x()
        y, size = self.outputs(maps, x)
        y += size * self.generator.standard_normal(y.shape)
        return Made(x, y, maps, usual=self.maps, **more)  # type: ignore[arg-type]


def _mixed(g: np.random.Generator, share: float, spoil: Callable[[Draw, Array], Array]) -> Made:
    """So many of all tasks are spoiled, and as many of those to come."""
    draw = Draw(g)
    odd = g.random(draw.tasks) < share
    maps = draw.maps.copy()
    if odd.any():
        maps[odd] = spoil(draw, maps[odd])
    further = draw.more(_FURTHER)
    far = g.random(_FURTHER) < share
    further[far] = spoil(draw, further[far])
    return draw.made(maps, further=further)


def _sensor(factor: float) -> Callable[[Draw, Array], Array]:
    def spoil(_: Draw, maps: Array) -> Array:
        found = maps.copy()
        found[:, :, 1] *= factor
        return found

    return spoil


def _node(draw: Draw, maps: Array) -> Array:
    found = maps.copy()
    found[:, 0] = draw.generator.standard_normal(found[:, 0].shape) * np.sqrt(np.mean(maps**2))
    return found


def _unrelated(draw: Draw, maps: Array) -> Array:
    return draw.generator.standard_normal(maps.shape) * np.sqrt(np.mean(maps**2))


def _large(draw: Draw, maps: Array) -> Array:
    return 4 * _unrelated(draw, maps)


def _all_low(share: float) -> Attack:
    """One sensor reads low in all tasks: a near symmetry."""

    def make(g: np.random.Generator) -> Made:
        draw = Draw(g)
        return draw.made(_sensor(1 - share)(draw, draw.maps))

    return make


def _near(draw: Draw, size: float) -> Array:
    """Maps with a defect of this size, the same direction in all tasks."""
    rough = draw.generator.standard_normal(draw.maps.shape[1:])
    rough *= size * np.sqrt(np.mean(np.sum(draw.maps**2, (1, 2)))) / np.linalg.norm(rough)
    return draw.maps + draw.generator.standard_normal((draw.tasks, 1, 1)) * rough


def _uneven_noise(power: float, size: float) -> Attack:
    """Noise whose size depends on |x|."""

    def make(g: np.random.Generator) -> Made:
        draw = Draw(g)
        maps, x = _near(draw, size), draw.x()
        y, noise = draw.outputs(maps, x)
        length = np.sqrt(np.mean(x**2, 2, keepdims=True))
        factor = length**power
        y += 6 * noise * factor / np.sqrt(np.mean(factor**2)) * g.standard_normal(y.shape)
        return Made(x, y, maps, usual=draw.maps, assumptions_hold=False)

    return make


def _autocorrelated(size: float, inputs: bool = True) -> Attack:
    """Inputs and noise that remember what was before."""

    def make(g: np.random.Generator) -> Made:
        draw = Draw(g)
        maps = _near(draw, size)
        x = _remembering(g, draw.x().shape) if inputs else draw.x()
        y, noise = draw.outputs(maps, x)
        y += 3 * noise * _remembering(g, y.shape)
        return Made(x, y, maps, usual=draw.maps, assumptions_hold=False)

    return make


def _remembering(g: np.random.Generator, shape: tuple[int, ...], memory: float = 0.9) -> Array:
    found = g.standard_normal(shape)
    for t in range(1, shape[1]):
        found[:, t] = memory * found[:, t - 1] + np.sqrt(1 - memory**2) * found[:, t]
    return found


def _common_noise(g: np.random.Generator) -> Made:
    """Most of the noise is the same for all outputs."""
    draw = Draw(g)
    maps, x = _near(draw, 0.15), draw.x()
    y, noise = draw.outputs(maps, x)
    y += 3 * noise * (g.standard_normal(y.shape[:2])[..., None] + 0.2 * g.standard_normal(y.shape))
    return Made(x, y, maps, usual=draw.maps, assumptions_hold=False)


def _dependent(g: np.random.Generator) -> Made:
    """Eight tasks of each robot are the same map; one robot in eight is different at a node."""
    draw = Draw(g)
    robots = draw.tasks // 8 + 1
    maps = draw.more(robots)
    odd = g.random(robots) < 1 / 8
    if odd.any():
        maps[odd] = _node(draw, maps[odd])
    draw.maps = np.repeat(draw.more(robots), 8, 0)[: draw.tasks]
    return draw.made(np.repeat(maps, 8, 0)[: draw.tasks])


def _duplicates(g: np.random.Generator) -> Made:
    """Every task is in the file four times, number by number; the maps have a defect of 10 %."""
    draw = Draw(g)
    maps = _near(draw, 0.1)
    few = max(12, draw.tasks // 4)
    plain = draw.made(maps)
    again = np.tile(np.arange(few), 4)
    return Made(plain.x[again], plain.y[again], maps[again], usual=draw.maps, assumptions_hold=False)


def _drifting(g: np.random.Generator) -> Made:
    """A sensor loses two fifths of its gain from the first task to the last."""
    draw = Draw(g)
    maps = draw.maps.copy()
    maps[:, :, 1] *= np.linspace(1, 0.6, draw.tasks)[:, None]
    return draw.made(maps)


def _late_fault(g: np.random.Generator) -> Made:
    """A sensor is at half in the last 5 % of the tasks."""
    draw = Draw(g)
    maps = draw.maps.copy()
    maps[-max(1, draw.tasks // 20) :, :, 1] *= 0.5
    return draw.made(maps)


def _drift_inside(g: np.random.Generator) -> Made:
    """Inside every task a sensor loses half of its gain, from the first example to the last."""
    draw = Draw(g)
    x = draw.x()
    gain = np.ones_like(x)
    gain[:, :, 1] = np.linspace(1, 0.5, x.shape[1])
    y, noise = draw.outputs(draw.maps, x * gain)
    maps = draw.maps.copy()
    maps[:, :, 1] *= 0.75
    return Made(x, y + noise * g.standard_normal(y.shape), maps, usual=draw.maps, assumptions_hold=False)


def _heavy_noise(g: np.random.Generator) -> Made:
    """Noise of Student's t with 2.1 degrees of freedom, maps with a defect of 12 %."""
    draw = Draw(g)
    maps, x = _near(draw, 0.12), draw.x()
    y, noise = draw.outputs(maps, x)
    return Made(x, y + noise * g.standard_t(2.1, y.shape), maps, usual=draw.maps, assumptions_hold=False)


def _heavy_inputs(g: np.random.Generator) -> Made:
    """Inputs of Student's t with 3 degrees of freedom; 5 % of the tasks have a sensor at half."""
    draw = Draw(g)
    odd = g.random(draw.tasks) < 0.05
    maps = draw.maps.copy()
    maps[odd, :, 1] *= 0.5
    x = g.standard_t(3, draw.x().shape)
    y, noise = draw.outputs(maps, x)
    return Made(x, y + noise * g.standard_normal(y.shape), maps, usual=draw.maps)


def _moved(values: Array, images: tuple[int, ...], signs: tuple[int, ...]) -> Array:
    found = np.empty_like(values)
    found[..., list(images)] = values * np.array(signs)
    return found


def _nonlinear(y_of: Callable[[Draw, Array, Array], Array], linear: Callable[[Draw, Array], Array]) -> Attack:
    """Tasks that compute ``y_of(draw, maps, x)``; ``linear`` is their best linear map for Gaussian inputs."""

    def make(g: np.random.Generator) -> Made:
        draw = Draw(g)
        x = draw.x()
        y = y_of(draw, draw.maps, x)
        noise = draw.noise * float(np.sqrt(np.mean(y**2)))

        def function_defect(generators: list[Element]) -> float:
            new = np.random.default_rng(0).standard_normal((draw.tasks, 200, draw.n))
            here = y_of(draw, draw.maps, new)
            worst = 0.0
            for e in generators:
                there = y_of(draw, draw.maps, _moved(new, e.inputs, e.input_signs))
                back = there[..., list(e.outputs)] * np.array(e.output_signs)
                worst = max(worst, float(np.linalg.norm(back - here) / np.linalg.norm(here)))
            return worst

        return Made(
            x,
            y + noise * g.standard_normal(y.shape),
            linear(draw, draw.maps),
            usual=draw.maps,
            function_defect=function_defect,
            assumptions_hold=False,
        )

    return make


def _squared(size: float) -> Attack:
    def y_of(_: Draw, maps: Array, x: Array) -> Array:
        y = np.einsum("tmn,ten->tem", maps, x)
        y[..., 0] += size * np.sqrt(np.mean(y**2)) * (x[..., 0] ** 2 - 1)
        return y

    return _nonlinear(y_of, lambda _, maps: maps)


def _cubic(_: Draw, maps: Array, x: Array) -> Array:
    bent = x.copy()
    bent[..., 1] = 0.7 * x[..., 1] + 0.1 * x[..., 1] ** 3  # its best linear map is x
    return np.einsum("tmn,ten->tem", maps, bent)


def _censored(draw: Draw, maps: Array, x: Array) -> Array:
    y = np.einsum("tmn,ten->tem", maps, x)
    limit = 1.2 * np.sqrt(np.mean(np.sum(draw.maps**2, (1, 2))) / maps.shape[1])
    y[..., 0] = np.clip(y[..., 0], -limit, limit)
    return y


def _censored_map(draw: Draw, maps: Array) -> Array:
    """By Price's theorem a clipped Gaussian keeps the share of its slope that is not clipped."""
    from scipy.special import erf

    limit = 1.2 * np.sqrt(np.mean(np.sum(draw.maps**2, (1, 2))) / maps.shape[1])
    spread = np.linalg.norm(maps[:, 0], axis=1, keepdims=True)
    found = maps.copy()
    found[:, 0] *= erf(limit / np.maximum(spread, 1e-12) / np.sqrt(2))
    return found


def _selected(g: np.random.Generator) -> Made:
    """Of three times as many tasks those are kept whose outputs look most symmetric."""
    draw = Draw(g)
    wanted, draw.tasks = draw.tasks, 3 * draw.tasks
    draw.maps = draw.more(draw.tasks)
    draw.noise *= 2
    rough = g.standard_normal(draw.maps.shape) * 0.2 * np.sqrt(np.mean(draw.maps**2))
    plain = draw.made(draw.maps + rough)
    own = np.stack([np.linalg.lstsq(a, b, rcond=None)[0].T for a, b in zip(plain.x, plain.y, strict=True)])
    span = draw.maps.reshape(len(own), -1)
    _, values, axes = np.linalg.svd(span, full_matrices=False)
    axes = axes[values > 1e-9 * values[0]]
    flat = own.reshape(len(own), -1)
    left = np.linalg.norm(flat - flat @ axes.T @ axes, axis=1)
    kept = np.sort(np.argsort(left)[:wanted])
    return Made(plain.x[kept], plain.y[kept], plain.maps[kept], usual=draw.maps, assumptions_hold=False)


def _rounded(what: str) -> Attack:
    """Whole numbers only, two or three for a standard deviation; one sensor reads 10 % low."""

    def make(g: np.random.Generator) -> Made:
        draw = Draw(g)
        maps = _sensor(0.9)(draw, draw.maps)
        x = draw.x() * (2.5 if what == "x" else 1.0)
        exact = np.round(x) if what == "x" else x
        y, noise = draw.outputs(maps, x)
        y += noise * g.standard_normal(y.shape)
        if what == "x":  # rounding adds to the inputs, and weakens all maps alike
            return Made(exact, y, maps / (1 + 1 / 12 / 2.5**2), usual=draw.maps, assumptions_hold=False)
        unit = 0.6 * np.sqrt(np.mean(y**2))
        return Made(x, np.round(y / unit), maps / unit, usual=draw.maps, assumptions_hold=False)

    return make


def _missing(sensors: int) -> Attack:
    """A fifth of the values of some sensors is missing and stands as 0; another sensor reads 15 % low."""

    def make(g: np.random.Generator) -> Made:
        draw = Draw(g)
        maps = _sensor(0.85)(draw, draw.maps)
        x = draw.x()
        y, noise = draw.outputs(maps, x)
        seen = x.copy()
        seen[..., :sensors][g.random(x[..., :sensors].shape) < 0.2] = 0
        return Made(
            seen, y + noise * g.standard_normal(y.shape), maps, usual=draw.maps, assumptions_hold=False
        )

    return make


def _uneven_tasks(g: np.random.Generator) -> Made:
    """One task in five is ten times as noisy, and these have a defect."""
    draw = Draw(g)
    loud = g.random(draw.tasks) < 0.2
    maps = np.where(loud[:, None, None], _near(draw, 0.3), draw.maps)
    x = draw.x()
    y, noise = draw.outputs(maps, x)
    y += np.where(loud, 10.0, 1.0)[:, None, None] * noise * g.standard_normal(y.shape)
    return Made(x, y, maps, usual=draw.maps)


def _few_examples(g: np.random.Generator) -> Made:
    """Fewer examples than inputs; 4 % of the tasks have a sensor at half."""
    draw = Draw(g)
    draw.examples = draw.n - 1
    draw.tasks = 160
    draw.maps = draw.more(160)
    maps = draw.maps.copy()
    odd = g.random(160) < 0.04
    maps[odd, :, 1] *= 0.5
    return draw.made(maps)


def _noisy_sensor(g: np.random.Generator) -> Made:
    """One sensor is read with errors, which weakens its weights by a tenth."""
    draw = Draw(g)
    x = draw.x()
    y, noise = draw.outputs(draw.maps, x)
    seen = x.copy()
    seen[..., 1] += np.sqrt(1 / 9) * g.standard_normal(x.shape[:2])
    maps = _sensor(0.9)(draw, draw.maps)
    return Made(seen, y + noise * g.standard_normal(y.shape), maps, usual=draw.maps)


def _faint(g: np.random.Generator) -> Made:
    """Only the faintest tenth of the weights breaks the symmetry, fully."""
    draw = Draw(g)
    size = np.sqrt(np.mean(draw.maps**2, 0))
    low = size <= np.quantile(size, 0.1)
    maps = draw.maps.copy()
    maps[:, low] = g.standard_normal((draw.tasks, int(low.sum()))) * size[low]
    return draw.made(maps)


ATTACKS: dict[str, Attack] = {
    "half-sensor-3%": lambda g: _mixed(g, 0.03, _sensor(0.5)),
    "low-sensor-10%": lambda g: _mixed(g, 0.1, _sensor(0.8)),
    "node-1-in-8": lambda g: _mixed(g, 1 / 8, _node),
    "unrelated-2%": lambda g: _mixed(g, 0.02, _unrelated),
    "contradicting-8%": lambda g: _mixed(g, 0.08, _unrelated),
    "large-odd-4%": lambda g: _mixed(g, 0.04, _large),
    "late-fault": _late_fault,
    "drifting-tasks": _drifting,
    "drift-inside": _drift_inside,
    "dependent-robots": _dependent,
    "duplicates": _duplicates,
    "noise-small-x": _uneven_noise(-3.0, 0.3),
    "noise-large-x": _uneven_noise(2.0, 0.1),
    "noise-large-x-exact": _uneven_noise(2.0, 0.0),
    "autocorrelated-exact": _autocorrelated(0.0),
    "autocorrelated-near": _autocorrelated(0.15),
    "autocorrelated-noise": _autocorrelated(0.15, inputs=False),
    "common-noise": _common_noise,
    "heavy-noise": _heavy_noise,
    "heavy-inputs": _heavy_inputs,
    "uneven-tasks": _uneven_tasks,
    "selected-tasks": _selected,
    "censored-output": _nonlinear(_censored, _censored_map),
    "squared-5%": _squared(0.1),
    "squared-20%": _squared(0.4),
    "cubic-sensor": _nonlinear(_cubic, lambda _, maps: maps),
    "whole-y": _rounded("y"),
    "whole-x": _rounded("x"),
    "missing-one-sensor": _missing(1),
    "missing-some": _missing(3),
    "few-examples-odd": _few_examples,
    "noisy-sensor": _noisy_sensor,
    "faint-weights": _faint,
    "sensor-8%-low": _all_low(0.08),
    "sensor-20%-low": _all_low(0.2),
}


def make(name: str, seed: int) -> Made:
    """The file of a kind and seed."""
    return ATTACKS[name](np.random.default_rng([seed, *name.encode()]))


def main() -> None:
    """Run what is asked for and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=("families",))
    parser.add_argument("--seeds", default="0:2")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    low, high = map(int, given.seeds.split(":"))
    names = [n for n in ATTACKS if given.only in n]
    run_all([(n, s) for s in range(low, high) for n in names], make, given.out)
    print(table(given.out))
    print(by_assumptions(rows(given.out), lambda name: make(name, 0).assumptions_hold))


if __name__ == "__main__":
    main()
