"""A network and a sampler of your own

Tasks come from a small simulator: heat spreads on a ring of ten rods, each ring with its own material. A two-line
sampler feeds them to a plain linear layer, and the layer finds out by itself that there is a ring.
"""

# %%
# ## A sampler
#
# A family of tasks is anything with a length and an `episode`. Here a task is one ring: its material says how much
# heat goes to the neighbour and the one after. An episode has two measurements to adapt with and eight to be judged
# by. All randomness comes from generators that are given seeds.
import os

import matplotlib.pyplot as plt
import torch

import metasym as ms

quick = "QUICK" in os.environ
rods = 10


class Rings:
    """Rings ``first`` to ``first + count - 1``, each of another material."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def episode(self, index, generator):
        material = torch.randn(3, generator=torch.Generator().manual_seed(self.first + index))
        heat = torch.randn(10, rods, generator=generator)
        later = material[0] * heat
        for step in (1, 2):
            later = later + material[step] / 2 * (heat.roll(step, 1) + heat.roll(-step, 1))
        support, query = ms.Batch(heat[:2], later[:2]), ms.Batch(heat[2:], later[2:])
        return ms.Episode(support, query, torch.tensor(index))


# %%
# ## A network
#
# Any `nn.Module` will do. Here it is one fully connected layer: 100 weights that know nothing of each other.
# `reparameterize` writes them as `vec(W) = U v`.
model = torch.nn.Linear(rods, rods, bias=False)
ms.reparameterize(model, "dense", filter_size=rods, std=0.1, generator=torch.Generator().manual_seed(0))
learner = ms.MSR(model, solver="ridge", penalty=0.1)

# %%
# ## Training, beside the same layer without a symmetry
plain = ms.MAML(torch.nn.Linear(rods, rods, bias=False), solver="ridge", penalty=0.1)
steps = 60 if quick else 300
for method in (learner, plain):
    for _ in ms.train(method, Rings(0, 200), outer_steps=steps, outer_lr=2e-2, progress="silent"):
        pass
for name, method in (("symmetry learned", learner), ("plain", plain)):
    score = ms.evaluate(method, Rings(1000, 100))
    print(f"{name:17s} mean squared error {score.mean:.5f} ± {score.ci95:.5f} on 100 new rings")

# %%
# ## What was found
#
# Heat flows alike in both directions, so the ring may be turned and reflected: the group is that of the regular
# ten-gon, and it was found from measurements.
#
# It says *approximately*: seven of the ten filter entries are not needed, and 300 steps have not yet brought them to
# zero. `project` sets U to the pattern that was found; the score on new rings tells that nothing was lost by it.
report = ms.inspect(model)
print(report)
ms.project(model, report)
score = ms.evaluate(learner, Rings(1000, 100))
print(f"after projection: {score.mean:.5f} ± {score.ci95:.5f}")

# %%
# The weight of one new ring, adapted from two measurements, beside the pattern that was read off U: equal numbers are
# tied weights.
adapted = learner.adapt(Rings(2000, 1).episode(0, torch.Generator().manual_seed(3)).support)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 3.6), label="An adapted weight and the pattern of tied weights"
)
left.imshow(adapted.weight.detach(), cmap="RdBu", vmin=-1, vmax=1)
left.set_title("weight of a new ring")
right.imshow(torch.tensor(report[0].pattern.classes), cmap="tab20")
right.set_title("tied weights")
for axes in (left, right):
    axes.set_xlabel("rod, before")
    axes.set_ylabel("rod, after")
figure.tight_layout()
