"""Auditing a network: what it learned of a symmetry, and what it has by construction

A trained network is a function that can be called. Small convolutional networks learn scikit-learn's digits, one from
the images as they are, one from flipped ones too, one from turned ones: which transforms has each learned to ignore?
Then a transformer: without positions it treats its tokens alike, with positions it does not, and metasym finds out.
"""

# %%
# ## Three networks, one architecture
#
# Scikit-learn has 1,797 digits of 8 x 8 pixels. All networks are the same two convolutions and a linear layer; they
# differ in what is done to images during training: nothing, flips from left to right, or turns by up to 40 degrees.
import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import metasym as ms

quick = "QUICK" in os.environ
digits = load_digits()
images = torch.tensor(digits.images / 8 - 1, dtype=torch.float32)[:, None]
labels = torch.tensor(digits.target)
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
train, test = order[:1200], order[1200:]


def flipped(x):
    """Half of the images, seen in a mirror."""
    return torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(-1), x)


def turned(x):
    """All images, each by an angle of its own."""
    angles = torch.deg2rad(80 * torch.rand(len(x)) - 40)
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros(len(x))
    moves = torch.stack([cos, -sin, zero, sin, cos, zero], 1).view(-1, 2, 3)
    grid = nn.functional.affine_grid(moves, list(x.shape), align_corners=False)
    return nn.functional.grid_sample(x + 1, grid, align_corners=False) - 1


def trained(change):
    """A network that gives the probabilities of the ten digits."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(384, 10), nn.Softmax(1)),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(20 if quick else 400):
        rows = train[torch.randint(0, len(train), (64,))]
        probabilities = network(change(images[rows]))
        loss = nn.functional.nll_loss(torch.log(probabilities + 1e-9), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


networks = {"as they are": trained(lambda x: x), "flipped": trained(flipped), "turned": trained(turned)}
for name, network in networks.items():
    right = (network(images[test]).argmax(1) == labels[test]).float().mean()
    print(f"trained on images {name:12s} {right:6.1%} of {len(test)} test images are right")

# %%
# ## What they have learned
#
# `ms.check_equivariance` without a group asks images about flips, quarter turns, turns, shifts and scales. A
# defect of 0 is exact invariance, 1.4 unrelated answers. A transform holds if its defect is at most the tolerance,
# for every one of the ten outputs, with its bound at 95 %.
#
# The network that saw flips has learned them, nearly; the one that saw turns has learned turns, and scales no better
# than the others. Test images alone do not tell: all three have about the same score.
found = {
    name: ms.check_equivariance(network, images[test], tolerance=0.4) for name, network in networks.items()
}
for name, audit in found.items():
    flip = audit.elements[0]
    print(f"trained on images {name}: {audit}")
    print(f"  {flip.name}: defect {flip.defect:.2f}, at most {flip.defect_upper:.2f}\n")

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.4), label="Defects of turns by angle, and of flips, of three networks"
)
for name, audit in found.items():
    turns = [one for one in audit.elements if one.family == "turns"]
    angles = np.array([one.amount * (1 if "+" in one.name else -1) for one in turns])
    order = angles.argsort()
    left.plot(angles[order], np.array([one.defect for one in turns])[order], label=name)
left.set(xlabel="turned by, degrees", ylabel="defect", ylim=(0, None))
left.legend(title="trained on images")
right.bar(list(found), [audit.elements[0].defect for audit in found.values()], color=["C0", "C1", "C2"])
right.set(ylabel="defect of the left-right flip")
figure.tight_layout()

# %%
# ## A symmetry by construction
#
# Attention treats its tokens alike. Here a transformer reads five tokens of three numbers and learns the mean of
# their lengths; a second one adds a learned position to each token, as most do. `ms.discover(f, x)` is told nothing:
# it calls the network and finds what may be exchanged.


class Transformer(nn.Module):
    """One layer of attention, with or without positions."""

    def __init__(self, positions):
        super().__init__()
        self.into = nn.Linear(3, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, 1)
        self.positions = nn.Parameter(torch.randn(5, 16)) if positions else None

    def forward(self, tokens):
        """[points, 5, 3] to [points]."""
        tokens = self.into(tokens) if self.positions is None else self.into(tokens) + self.positions
        return self.out(self.layer(tokens)).mean((1, 2))


def learned(positions):
    """A transformer that gives the mean length of its tokens, about."""
    torch.manual_seed(1)
    network = Transformer(positions)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(20 if quick else 600):
        tokens = torch.randn(64, 5, 3)
        loss = (network(tokens) - tokens.norm(dim=2).mean(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


tokens = torch.randn(800, 5, 3, generator=torch.Generator().manual_seed(2))
lengths = tokens.norm(dim=2).mean(1)
without, with_positions = learned(positions=False), learned(positions=True)
for name, network in (("without positions", without), ("with positions", with_positions)):
    run = ms.discover(network, tokens, continuous=False)
    error = (network(tokens) - lengths).square().mean() / lengths.var()
    print(f"{name}: error {error:.2f} of the variance\n  {run.verdict}\n")
    if network is without:
        exchanges = run.verdict.claims[0].moves

# %%
# The first one has every permutation of its tokens, S_5, to the last digit. The second one has none, although its
# task has them all. How far off is it? What was found of the first network is a group that the second one can be
# asked about.
audit = ms.check_equivariance(with_positions, tokens, exchanges)
print(audit)
