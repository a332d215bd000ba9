"""The simulators' true groups: by search, by what geometry and spglib say, and by sympy's orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from studies.simulators import MODULES, SIMULATORS, examples_of, simulate, simulator
from studies.true_group import Element, defect, order, true_group

PACKAGES = {"ant": ("gymnasium", "mujoco"), "satellites": ("rebound",), "cluster": ("ase", "spglib")}
ORDERS = {
    "ant": 16,
    "satellites": 12,
    "orbits": 6,
    "resistors": 8,
    "resistors-generic": 1,
    "truss": 4,
    "cluster": 48,
}


def needs(name: str) -> None:
    for package in PACKAGES.get(MODULES[name], ()):
        pytest.importorskip(package, reason=f"{package} is not installed (the extra 'simulators')")


@pytest.mark.parametrize("name", SIMULATORS)
def test_true_group(name: str) -> None:
    needs(name)
    made = simulate(name, 3, tasks=8, examples=4)
    assert made.x.shape == (8, 4, len(made.input_names))
    assert made.y.shape == (8, 4, len(made.output_names))
    assert np.allclose(made.y, made.x @ made.maps.transpose(0, 2, 1))
    group = true_group(made.maps)
    assert len(group) == ORDERS[name]
    assert order(group) == len(group)  # closed under products, which sympy takes for itself
    assert len(true_group(made.maps, tolerance=1e-4)) == len(group)  # nothing is nearly a symmetry
    assert max(defect(made.maps, g) for g in group) < 1e-6


def test_search_misses_nothing() -> None:
    """Against all pairs of signed permutations, one by one."""
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((2, 5))
    maps = np.stack([[[p, q, 0], [-q, p, 0], [0, 0, q]] for p, q in zip(a, b, strict=True)])
    signed = [
        (images, signs)
        for images in itertools.permutations(range(3))
        for signs in itertools.product((1, -1), repeat=3)
    ]
    elements = {
        Element(out, inp, so, si)
        for (out, so), (inp, si) in itertools.product(signed, signed)
        if so[0] == 1 and defect(maps, Element(out, inp, so, si)) < 1e-9
    }
    assert set(true_group(maps)) == elements
    assert len(elements) == 4


def test_noise_is_a_share_of_the_outputs() -> None:
    maps = np.random.default_rng(0).standard_normal((50, 6, 4)) * 7
    clean = examples_of(maps, np.random.default_rng(1), 30, 0.0)[1]
    noisy = examples_of(maps, np.random.default_rng(1), 30, 0.2)[1]
    assert np.std(noisy - clean) == pytest.approx(0.2 * np.sqrt(np.mean(clean**2)), rel=0.05)


def test_ant_has_the_symmetries_of_its_body() -> None:
    """A quarter turn about the vertical takes every leg to the next one; knees of legs 2 and 3 bend the other way."""
    needs("ant")
    maps = simulate("ant", 1, tasks=5, examples=1).maps
    next_leg = [(j + 2) % 8 for j in range(8)]
    knee = np.array([1, -1, -1, 1])
    signs = np.ones(8, dtype=int)
    signs[1::2] = knee * np.roll(knee, -1)
    turn = Element(tuple(next_leg), tuple(next_leg), tuple(signs.tolist()), tuple(signs.tolist()))
    assert defect(maps, turn) < 1e-9
    assert defect(maps, Element(turn.outputs, turn.inputs, (1,) * 8, (1,) * 8)) > 0.01


def test_cluster_has_what_spglib_finds() -> None:
    needs("cluster")
    from studies.simulators.cluster import rotations

    maps = simulate("cluster", 1, tasks=4, examples=1).maps
    found = rotations()
    assert len(found) == 24
    for axes, atoms in found:
        images, signs = [0] * 12, [0] * 12
        for atom, component in itertools.product(range(4), range(3)):
            target = int(np.flatnonzero(axes[:, component])[0])
            images[3 * atom + component] = 3 * atoms[atom] + target
            signs[3 * atom + component] = int(axes[target, component])
        both = Element(tuple(images), tuple(images), tuple(signs), tuple(signs))
        assert defect(maps, both) < 1e-8


def test_satellites_respond_as_finite_kicks_do() -> None:
    """The variational equations, against two simulations with small kicks."""
    needs("satellites")
    import rebound

    generator = np.random.Generator(np.random.PCG64([0, 14]))
    planet, mass, time = (generator.uniform(*between) for between in ((0.5, 2.0), (0.05, 0.5), (0.3, 1.5)))
    heights = []
    for kick in (1e-5, -1e-5):
        sim = rebound.Simulation()
        sim.integrator = "leapfrog"
        sim.dt = 1e-3
        sim.add(m=planet)
        pull = planet + mass * sum(1 / (4 * np.sin(np.pi * d / 6)) for d in range(1, 6))
        for i, a in enumerate(np.arange(6) * np.pi / 3):
            c, s = np.cos(a), np.sin(a)
            sim.add(m=mass, x=c, y=s, vx=-np.sqrt(pull) * s, vy=np.sqrt(pull) * c, vz=kick * (i == 2))
        sim.integrate(time)
        heights.append([p.z for p in sim.particles[1:]])
    response = (np.array(heights[0]) - np.array(heights[1])) / 2e-5
    assert simulator("satellites").draw(np.random.Generator(np.random.PCG64([0, 14])), 1)[
        0, :, 2
    ] == pytest.approx(response, abs=1e-5)
