"""Few-shot images: how accuracy falls with the angle

Characters of Omniglot are to be told apart from one example each. Two networks are trained on query images that are
turned and flipped, with and without a learned symmetry; then `metasym angles` turns the query images of new
characters by known angles.
"""

# %%
# ## The images
#
# Omniglot has 1,623 characters, each drawn by 20 people. `metasym data omniglot` fetches 16 MB, once, or converts what
# you have; they are looked for in `METASYM_DATA`, else in the user's cache folder.
import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import metasym as ms
from metasym.cli import main

quick = "QUICK" in os.environ
characters = ms.tasks.omniglot("train")
tasks = ms.tasks.FewShotTasks(characters, ways=5, shots=1, queries=3)
tasks = ms.tasks.AugmentQuery(tasks, ms.tasks.paper_transform())
episode = tasks.episode(0, torch.Generator().manual_seed(0))
figure, axes = plt.subplots(
    4, 5, figsize=(6, 4.8), label="A task: one example of five characters, and three queries of each"
)
for way in range(5):
    queries = episode.query.x[episode.query.y == way][:3]
    for row, image in enumerate([episode.support.x[episode.support.y == way][0], *queries]):
        axes[row, way].imshow(image[0], cmap="gray_r")
        axes[row, way].set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("support")
for row in range(1, 4):
    axes[row, 0].set_ylabel("query")
print(len(characters), "characters to train on")

# %%
# ## Training
#
# MSR learns U for every convolution; MAML trains the same network without. The paper trains for 60,000 steps on a
# GPU; here it is 100 on one core, so that the accuracies are far below what [1,000 steps](../reproduction.md) give.
few = (
    ["--outer-steps", "2", "--tasks-per-step", "2", "--test-tasks", "4"]
    if quick
    else ["--outer-steps", "100"]
)
for method in ("msr", "maml"):
    name = f"aug-omniglot/5way-1shot/{method}"
    main(["run", name, "--budget", "cpu", "--out", f"runs/{method}", "--progress", "silent", *few])

# %%
# ## Turning the query images
main(["angles", "runs/msr", "runs/maml", "--tasks", "4" if quick else "60", "--out", "angles"])

# %%
figure, axes = plt.subplots(
    figsize=(6, 3.6), label="Accuracy over the angle of the query images, MSR and MAML"
)
for file in sorted(Path("angles/angles").glob("*.json")):
    found = json.loads(file.read_text())
    accuracy = [100 * found["scores"][f"turned {degrees}"]["mean"] for degrees in found["degrees"]]
    axes.plot(found["degrees"], accuracy, marker="o", label=found["experiment"].rpartition("/")[2])
axes.set(xlabel="angle of the query images, degrees", ylabel="accuracy, %", xticks=range(0, 181, 45))
axes.legend()
figure.tight_layout()
