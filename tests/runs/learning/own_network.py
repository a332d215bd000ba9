"""A network of a user's own, for --model."""

from torch import nn


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 4, bias=False))


def broken() -> nn.Module:
    raise RuntimeError("no network today")


def wrong_size() -> nn.Module:
    return nn.Linear(4, 3)


something = 3
