"""One data set: a table with a hidden rotation

Not every problem is a family of tasks. This example has a single table: the position of a probe, its temperature,
and its signal. `metasym discover` finds symmetries of the function behind the table.
"""

# %%
# ## The data
#
# A probe flies around a source and records its position, its temperature and a signal. The signal depends only on the
# distance and the temperature, but metasym does not know this: it gets four columns of numbers, and one to predict.
import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import metasym as ms
from metasym.cli import main

quick = "QUICK" in os.environ
draw = np.random.default_rng(5)
x = draw.standard_normal((250 if quick else 1200, 4))
signal = np.exp(-(x[:, :3] ** 2).sum(1) / 4) * (1 + 0.5 * np.tanh(x[:, 3]))
table = np.column_stack([x, signal + 0.002 * draw.standard_normal(len(x))])
np.savetxt("probe.csv", table, delimiter=",", header="east,north,up,temperature,signal", comments="")

# %%
# ## Find symmetries
#
# One command reads the table. metasym holds out a fifth of the rows and tests every claim on them.
main(["discover", "probe.csv", "--outputs", "signal", "--out", "probe", "--progress", "silent"])

# %%
# ## The model
#
# Move the probe around the source on a tilted circle: a model with the symmetry predicts the same signal everywhere
# on it. For comparison, the second curve shows a straight path through the source, along which the signal changes.
model = ms.open_run("probe").model
angle = np.linspace(0, 2 * np.pi, 80)
circle = np.stack([np.cos(angle), 0.8 * np.sin(angle), 0.6 * np.sin(angle), 0 * angle], axis=1)
line = np.stack([np.linspace(-2, 2, 80), *np.zeros((3, 80))], axis=1)
figure, axes = plt.subplots(figsize=(5.5, 3.4), label="Predicted signal around the source and through it")
for places, name in ((circle, "around the source"), (line, "through the source")):
    with torch.no_grad():
        axes.plot(np.linspace(0, 1, 80), model(torch.from_numpy(places).float()).reshape(-1), label=name)
axes.set(xlabel="fraction of the path", ylabel="predicted signal")
axes.legend()
figure.tight_layout()
