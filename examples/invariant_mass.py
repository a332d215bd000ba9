"""A continuous symmetry, the invariant of relativity

One data set, no family of tasks: energies and momenta of particles, and a number that depends only on their invariant
mass. `ms.discover` finds the Lorentz group in these numbers.
"""

# %%
# ## The data
#
# Each example is one particle with energy and momentum (e, p). The output is a smooth function of its invariant mass,
# `e² - p²`, which no boost changes.
#
# We chose the settings so that the example works: it shows that metasym can find the group, not how often it does.
# The settings are: two directions of space instead of three, a slowly varying function (`tanh` of a quarter of the
# mass), no noise, the number of examples, and normally distributed inputs, so some energies are negative. The page
# on [discovery, counted](../discover-studies.md#the-gallerys-example) says what we tried.
import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import metasym as ms

quick = "QUICK" in os.environ
draw = np.random.default_rng(3)
x = draw.standard_normal((120 if quick else 1000, 3))
mass = x[:, 0] ** 2 - x[:, 1] ** 2 - x[:, 2] ** 2
y = np.tanh(mass / 4)[:, None]

# %%
# ## Find symmetries
#
# metasym holds out a fifth of the examples and tests every claim on them.
found = ms.discover(x, y, finite=False)  # without finite=False it also searches for swaps and sign changes
print(found.verdict)
for one in found.refused:
    print(f"not claimed, {one['what']}: {one['words']}")

# %%
# ## The model that has the symmetry
#
# The model has the discovered symmetry built in. A boost mixes energy and momentum, as a moving observer sees them:
# it moves a particle along a hyperbola. If the model has the symmetry, its prediction is constant there.
energy, momentum = np.meshgrid(np.linspace(-2, 2, 81), np.linspace(-2, 2, 81))
plane = np.stack([energy, momentum, np.full_like(energy, 0.4)], axis=-1)
speeds = np.linspace(-1.2, 1.2, 41)
boosted = np.stack([[np.cosh(s), np.sinh(s), 0.4] for s in speeds])
with torch.no_grad():
    predicted = found.model(torch.from_numpy(plane.reshape(-1, 3)).float())[:, 0].reshape(energy.shape)
    along = found.model(torch.from_numpy(boosted).float())[:, 0]
print(f"along the boost the prediction is {along.min():.4f} to {along.max():.4f}")
figure, axes = plt.subplots(
    figsize=(4.8, 3.8), label="What the model predicts for every energy and momentum, and the way of a boost"
)
colors = axes.contourf(momentum, energy, predicted, levels=21, cmap="RdBu_r")
axes.plot(boosted[:, 1], boosted[:, 0], "k", linewidth=2.5, label="one particle, boosted")
axes.set(xlabel="momentum", ylabel="energy", xlim=(-2, 2), ylim=(-2, 2), title="predicted by the model")
axes.legend(loc="lower center")
figure.colorbar(colors)
figure.tight_layout()
