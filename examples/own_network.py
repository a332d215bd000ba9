"""A network and a sampler of your own

The tasks come from a small simulator: heat spreads on a ring of ten rods, and each ring has its own material. A
sampler feeds them to a plain linear layer, and metasym finds the ring.
"""

# %%
# ## A sampler
#
# A family of tasks is anything with a length and an `episode`. Here a task is one ring: its material says how much
# heat flows to the next rod and the one after it. An episode has two support and eight query measurements. All
# randomness comes from seeded generators.
import os

import matplotlib.pyplot as plt
import torch

import metasym as ms

quick = "QUICK" in os.environ
rods = 10


class Rings:
    """Rings ``first`` to ``first + count - 1``, each with its own material."""

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
# You can use any `nn.Module`. This one is a fully connected layer with 100 independent weights. `reparameterize`
# writes them as `vec(W) = U v`.
model = torch.nn.Linear(rods, rods, bias=False)
ms.reparameterize(model, "dense", filter_size=rods, std=0.1, generator=torch.Generator().manual_seed(0))
learner = ms.MSR(model, solver="ridge", penalty=0.1)

# %%
# ## Train, and compare with the same layer without a symmetry
plain = ms.MAML(torch.nn.Linear(rods, rods, bias=False), solver="ridge", penalty=0.1)
steps = 60 if quick else 300
for method in (learner, plain):
    for _ in ms.train(method, Rings(0, 200), outer_steps=steps, outer_lr=2e-2, progress="silent"):
        pass
for name, method in (("symmetry learned", learner), ("plain", plain)):
    score = ms.evaluate(method, Rings(1000, 100))
    print(f"{name:17s} mean squared error {score.mean:.5f} ± {score.ci95:.5f} on 100 new rings")

# %%
# ## Inspect
#
# Heat flows equally in both directions, so you can rotate and reflect the ring: the group is that of the regular
# decagon. metasym found it from measurements.
#
# The verdict says *approximately*: seven of the ten filter entries are not needed, and 300 steps have not yet
# reduced them to zero. `project` projects U onto the pattern; the score on new rings shows that this loses nothing.
report = ms.inspect(model)
print(report)
ms.project(model, report)
score = ms.evaluate(learner, Rings(1000, 100))
print(f"after projection: {score.mean:.5f} ± {score.ci95:.5f}")

# %%
# The left picture shows the weight of a new ring, adapted from two measurements. The right one shows the pattern in
# U: equal colours are tied weights.
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
