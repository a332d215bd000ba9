"""Few-shot images: what a network learns about rotated characters

A network sees one drawing each of five new characters, and classifies other drawings of them, which are rotated
and flipped. Does it learn from many such tasks that a rotated character is the same character? `metasym angles`
rotates the images by 0 to 180 degrees and measures the accuracy.
"""

# %%
# ## The images
#
# Omniglot has 1,623 handwritten characters of 50 alphabets, each drawn by 20 people. `metasym data omniglot`
# downloads them once (16 MB) into the folder `METASYM_DATA`. A task has five held-out characters: one drawing each
# to adapt to, and others as queries. Only the queries are augmented: cropped, flipped, and rotated by up to 30
# degrees.
import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from metasym.cli import main
from metasym.tasks import AugmentQuery, FewShotTasks, omniglot, paper_transform

quick = "QUICK" in os.environ
tasks = AugmentQuery(FewShotTasks(omniglot("test"), ways=5, shots=1, queries=1), paper_transform())
task = tasks.episode(3, torch.Generator().manual_seed(3))
figure, rows = plt.subplots(
    2, 5, figsize=(7, 3), label="Five characters: one support and one query drawing each"
)
for axes, images, title in zip(rows, (task.support.x, task.query.x), ("support", "query"), strict=True):
    for place, image in zip(axes, images, strict=True):
        place.imshow(image[0], cmap="gray_r")
        place.set(xticks=[], yticks=[])
    axes[0].set_ylabel(title)
figure.tight_layout()

# %%
# ## Two methods
#
# MAML adapts an ordinary convolutional network. MSR writes each of its layers as `vec(W) = U v` and adapts `v` alone.
# Both are cells of the paper's Table 3, so we only give their names. `--budget cpu` takes 1,000 steps instead of the
# paper's 60,000. Each `main([...])` is the same as `metasym ...` in a shell.
#
# Training both takes an hour on one core. The repository contains the measurements of `metasym angles`, and this
# page uses them. Without these files, or with `QUICK`, the script trains.
measured = Path(__file__).parent.parent / "results" / "table3" / "angles"
runs = [measured / f"paper-cpu-aug-omniglot-5way-1shot-{method}-seed0.json" for method in ("msr", "maml")]
if quick or not all(path.exists() for path in runs):
    few = ["--outer-steps", "2", "--tasks-per-step", "2", "--test-tasks", "4"] if quick else []
    for method in ("msr", "maml"):
        cell = f"aug-omniglot/5way-1shot/{method}"
        main(["run", cell, "--budget", "cpu", *few, "--out", f"runs/{method}", "--progress", "silent"])
    runs = [Path("runs/msr"), Path("runs/maml")]

# %%
# ## Rotated by every angle
#
# For each test task the network adapts to the upright drawings, and then classifies the query drawings, rotated by
# 0 to 180 degrees. Rows with flips flip the images at random first. The last rows show the difference on the same
# tasks.
main(["angles", *map(str, runs), "--tasks", "3" if quick else "200", "--out", "angles"])

# %%
# ## The picture
#
# `metasym angles` also draws a picture; this one uses the files that it writes. Training rotated images by up to 30
# degrees and flipped them, and both flips together are a rotation by 180 degrees. Neither method has seen the
# angles in between.
figure, axes = plt.subplots(
    figsize=(7, 3.6), label="Accuracy over the angle of the query images, MSR and MAML"
)
files = [path for path in runs if path.is_file()] or sorted(
    Path("angles/angles").glob("*.json"), reverse=True
)
for path in files:
    found = json.loads(path.read_text(encoding="utf-8"))
    scores = [found["scores"][f"turned {angle}"] for angle in found["degrees"]]
    mean, spread = (torch.tensor([100 * score[key] for score in scores]) for key in ("mean", "ci95"))
    (line,) = axes.plot(
        found["degrees"], mean, marker="o", label=found["experiment"].rpartition("/")[2].upper()
    )
    axes.fill_between(
        found["degrees"], mean - spread, mean + spread, alpha=0.2, color=line.get_color(), linewidth=0
    )
for seen in ((0, 30), (150, 180)):
    axes.axvspan(*seen, color="0.92", zorder=0)
axes.axhline(20, color="0.6", linestyle=":", label="guessing")
axes.set(
    xlabel="angle of the query images, degrees (grey: seen in training)", ylabel="accuracy, %", ylim=(0, 100)
)
axes.set_xticks(range(0, 181, 30))
axes.legend()
figure.tight_layout()
