"""Six equal satellites on a ring around a planet, in rebound, with its variational equations.

A task draws the planet's mass, the satellites' mass and how long one waits. ``satellites``: a small kick of each
satellite out of the plane of the ring, to its height after that time. No direction in the ring is distinguished:
D_6. ``orbits``: a radial kick to the distance from the planet. The ring turns one way, and waves that run with it
differ from those against it: Z_6.
"""

from __future__ import annotations

import numpy as np
import rebound

from studies.simulators import Array, Simulator

RING = 6
NAMES = tuple(f"satellite {i}" for i in range(1, RING + 1))


def _response(generator: np.random.Generator, tasks: int, *, vertical: bool) -> Array:
    angles = 2 * np.pi * np.arange(RING) / RING
    maps = np.empty((tasks, RING, RING))
    for task in range(tasks):
        sim = rebound.Simulation()
        # A fixed step: no force acts on the planet, and a step chosen by relative forces would shrink to 0.
        sim.integrator = "ias15"
        sim.integrator.epsilon = 0
        sim.dt = 0.1
        planet, mass = generator.uniform(0.5, 2.0), generator.uniform(0.05, 0.5)
        time = generator.uniform(0.3, 1.5)
        sim.add(m=planet)
        speed = _circular_speed(planet, mass)
        for a in angles:
            c, s = np.cos(a), np.sin(a)
            sim.add(m=mass, x=c, y=s, vx=-speed * s, vy=speed * c)
        kicks = []
        for i, a in enumerate(angles):
            kick = sim.add_variation()
            moved = kick.particles[i + 1]
            if vertical:
                moved.vz = 1.0
            else:
                moved.vx, moved.vy = np.cos(a), np.sin(a)
            kicks.append(kick)
        sim.integrate(time)
        for j, kick in enumerate(kicks):
            for i in range(RING):
                at, change = sim.particles[i + 1], kick.particles[i + 1]
                length = np.hypot(at.x, at.y)
                maps[task, i, j] = change.z if vertical else (at.x * change.x + at.y * change.y) / length
    return maps


def _circular_speed(planet: float, mass: float) -> float:
    """The speed at which gravity keeps the ring (of radius 1) turning as it is."""
    between = 2 * np.sin(np.pi * np.arange(1, RING) / RING)  # distances to the other satellites
    return float(np.sqrt(planet + mass * np.sum(0.5 / between)))


SIMULATORS = {
    "satellites": Simulator(
        lambda generator, tasks: _response(generator, tasks, vertical=True),
        tuple(f"kick {name}" for name in NAMES),
        tuple(f"height {name}" for name in NAMES),
        "D_6",
        "a ring of six satellites (rebound), vertical kick to height",
    ),
    "orbits": Simulator(
        lambda generator, tasks: _response(generator, tasks, vertical=False),
        tuple(f"kick {name}" for name in NAMES),
        tuple(f"distance {name}" for name in NAMES),
        "Z_6",
        "the same ring, radial kick to distance",
    ),
}
