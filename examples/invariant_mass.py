"""A continuous symmetry, the invariant of relativity

One data set, no family of tasks: energies and momenta of particles, and a number that depends on their invariant mass
alone. `ms.discover` finds the Lorentz group in it, without having heard of relativity.
"""

# %%
# ## The data
#
# Each example is one particle: energy and momentum (e, p). The answer is a smooth function of its invariant mass,
# `e² - p²`, which no boost changes.
#
# This example was adjusted until it worked: it shows that the group can be found, not how often it is. Adjusted were
# two directions of space in place of three, a function that bends slowly (`tanh` of a quarter of the mass), no noise,
# the number of examples, and inputs from a normal law, so that there are particles of negative energy. What other
# draws and a steeper function give is [told with the method](../discover-studies.md#the-gallerys-example).
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
# ## Looking for symmetries
#
# A fifth of the examples takes no part in the search: what is claimed is tested on them.
found = ms.discover(x, y, finite=False)  # swaps and changes of sign are looked for too where this is left out
print(found.verdict)
for one in found.refused:
    print(f"not claimed, {one['what']}: {one['words']}")

# %%
# ## The model that has the symmetry
#
# Whatever was found is built in. The prediction along a boost, which mixes energy and momentum as the speed of the
# observer does, is constant where the model has the symmetry.
speeds = np.linspace(-1.2, 1.2, 41)
boosted = np.stack([[np.cosh(s), np.sinh(s), 0.4] for s in speeds])
with torch.no_grad():
    predicted = found.model(torch.from_numpy(boosted).float())
figure, axes = plt.subplots(
    figsize=(5.5, 3.4), label="The model's prediction along a boost, beside the truth"
)
axes.plot(speeds, np.tanh((boosted[:, 0] ** 2 - boosted[:, 1] ** 2 - 0.16) / 4), color="0.6", label="truth")
axes.plot(speeds, predicted[:, 0], "--", label="model")
axes.set(xlabel="boost of the observer (rapidity)", ylabel="y", ylim=(-1.1, 1.1))
axes.legend()
figure.tight_layout()
