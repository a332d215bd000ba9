"""A ring of satellites

Six satellites circle a planet. metasym finds which of them are interchangeable, from simulations by rebound, a
package for the motion of stars and planets.

Extras: simulators
"""

# %%
# ## Simulations
#
# A task is one system: the mass of the planet, the mass of the satellites, and a time. The inputs are small pushes
# of the satellites out of the plane, and the outputs are their heights after that time. Small pushes have a linear
# effect, so pushing one satellite at a time gives the whole map.
import os

import matplotlib.pyplot as plt
import numpy as np
import rebound
import torch

import metasym as ms
from metasym.cli import main

quick = "QUICK" in os.environ
ring = 6
angles = 2 * np.pi * np.arange(ring) / ring
push = 1e-4


def heights(planet, satellite, time, pushed):
    """Where the satellites are above the plane, after ``pushed`` has been pushed."""
    system = rebound.Simulation()
    system.integrator, system.dt = "leapfrog", 0.002
    system.add(m=planet)
    chords = 2 * np.sin(np.pi * np.arange(1, ring) / ring)  # distances to the others
    speed = np.sqrt(planet + satellite * np.sum(0.5 / chords))  # keeps the ring rotating unchanged
    for number, angle in enumerate(angles):
        c, s = np.cos(angle), np.sin(angle)
        system.add(m=satellite, x=c, y=s, vx=-speed * s, vy=speed * c, vz=push * (number == pushed))
    system.integrate(time)
    return [particle.z / push for particle in system.particles[1:]]


draw = np.random.default_rng(1)
maps = []
for _ in range(20 if quick else 120):
    system = draw.uniform(0.5, 2), draw.uniform(0.1, 1), draw.uniform(0.5, 2.5)
    maps.append(np.stack([heights(*system, pushed) for pushed in range(ring)], axis=1))
x = draw.standard_normal((len(maps), 12, ring))
y = np.einsum("tij,tej->tei", np.stack(maps), x)
print(np.array_str(maps[0], precision=3, suppress_small=True))

# %%
# ## Learning
names = [f"satellite {i + 1}" for i in range(ring)]
np.savez("ring.npz", x=x, y=y, input_names=names, output_names=names)
main(["learn", "ring.npz", "--out", "ring", "--progress", "silent"])

# %%
# ## One new system from one measurement
#
# With the symmetry, only a few numbers differ between systems: how a satellite responds to its own push, to that of a
# neighbour, and to those of the others. One measurement of six heights determines them.
run = ms.open_run("ring")
new = np.stack([heights(1.3, 0.4, 1.2, pushed) for pushed in range(ring)], axis=1)
pushes = draw.standard_normal((9, ring)).astype(np.float32)
answers = pushes @ new.T.astype(np.float32)
network = run.adapt(pushes[:1], answers[:1])
with torch.no_grad():
    predicted = network(torch.from_numpy(pushes[1:])).numpy()
    pushed = network(torch.eye(ring)).numpy()[0]  # satellite 1 alone
figure, panels = plt.subplots(
    1, 2, figsize=(6.6, 3.2), label="How far each satellite rises after satellite 1 was pushed"
)
largest = 1.5 * np.abs(new[:, 0]).max()  # the numbers stay readable
for axes, rise, title in zip(
    panels, (new[:, 0], pushed), ("simulated", "predicted, from one measurement"), strict=True
):
    axes.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.8"))
    axes.plot(0, 0, "o", color="0.4", markersize=20)
    axes.scatter(
        np.cos(angles),
        np.sin(angles),
        700,
        rise,
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
        edgecolors="k",
        zorder=2,
    )
    for angle, height in zip(angles, rise, strict=True):
        axes.text(np.cos(angle), np.sin(angle), f"{height:.2f}", ha="center", va="center", fontsize=8)
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", title=title)
    axes.axis("off")
figure.tight_layout()
error = np.sqrt(np.mean((predicted - answers[1:]) ** 2) / np.mean(answers[1:] ** 2))
print(f"relative error {error:.1%} on 8 other pushes")
