"""Networks of the kinds that people have, for the tests of reparameterization."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class CNN(nn.Module):
    """A multi-layer network as people write them: blocks, norms, pooling, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, bias=False), nn.GroupNorm(3, 12), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(48, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


class Tied(nn.Module):
    """A language model's tie: the embedding is the output layer; and two linear layers share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.out = nn.Linear(6, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.b(self.a(self.embed(x)).tanh()))


class Grouped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv1d(4, 8, 3, groups=2, dilation=2)
        self.two = nn.Conv2d(1, 6, (3, 5), stride=2, padding=(1, 2), dilation=(2, 1))
        self.three = nn.Conv3d(6, 6, 2, groups=6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.two(self.one(x).unsqueeze(1))
        return self.three(y.unsqueeze(2).expand(-1, -1, 3, -1, -1))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 24, dropout=0.0, batch_first=True)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[torch.Generator], Tensor]]] = {
    "cnn": (CNN, lambda g: torch.randn(4, 3, 9, 9, generator=g)),
    "tied": (Tied, lambda g: torch.randint(0, 11, (3, 5), generator=g)),
    "grouped": (Grouped, lambda g: torch.randn(2, 4, 13, generator=g)),
    "encoder": (encoder, lambda g: torch.randn(2, 5, 16, generator=g)),
}


def layout(model: nn.Module) -> list[tuple[str, tuple[int, ...], bool]]:
    named = model.named_parameters(remove_duplicate=False)
    return [(n, tuple(p.shape), p.requires_grad) for n, p in named] + [
        (n, tuple(b.shape), False) for n, b in model.named_buffers()
    ]
