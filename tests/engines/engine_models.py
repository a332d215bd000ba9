"""Small models of every structure that an engine knows, and random episodes for them, in float64."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

import metasym as ms
from metasym.nn import StackFields, TaskBatchNorm2d, UnstackFields
from metasym.types import Batch, Episode

TASKS = 3


def dense_layer(
    *, bias: bool = False, learnable: bool = True, dtype: torch.dtype = torch.float64
) -> nn.Module:
    """5 -> 4, a dense U of six columns."""
    torch.manual_seed(0)
    model = nn.Linear(5, 4, bias=bias).to(dtype)
    return ms.reparameterize(model, "dense", filter_size=6, std=0.5, filter_std=0.5, learnable=learnable)


def dense_network() -> nn.Module:
    """3 -> 5 -> 4, of which the last layer has a dense U."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    select = lambda n, _: n == "2"  # noqa: E731
    return ms.reparameterize(model, "dense", select=select, filter_size=6, std=0.5, filter_std=0.5)


def many_dimensional(kind: str) -> tuple[nn.Module, Episode]:
    """Models whose last layer sees more than ``[examples, inputs]``, with episodes."""
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    layer = nn.Linear(4, 3)
    x = torch.randn(3, 2, 8, generator=g, dtype=torch.float64)
    if kind == "unflatten":
        model = nn.Sequential(nn.Unflatten(1, (2, 4)), layer).double()
    elif kind == "embedding":
        model = nn.Sequential(nn.Embedding(7, 4), layer).double()
        x = torch.randint(7, (3, 2, 2), generator=g)
    elif kind == "named":
        body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Unflatten(1, (2, 4)))
        model = nn.Sequential(OrderedDict([("body", body), ("1", layer)])).double()
    elif kind == "repeated":
        tanh = nn.Tanh()  # the same object twice: both count
        model = nn.Sequential(nn.Linear(8, 8), tanh, nn.Unflatten(1, (2, 4)), tanh, layer).double()
    else:
        model = layer.double()
        x = torch.randn(3, 2, 2, 4, generator=g, dtype=torch.float64)
    ms.reparameterize(
        model, "dense", select=lambda n, m: m is layer, filter_size=5, std=0.5, filter_std=0.5
    )  # fmt: skip
    batch = Batch(x, torch.randn(3, 2, 2, 3, generator=g, dtype=torch.float64))
    return model, Episode(batch, batch, torch.arange(3))


def rows(inputs: int, support: int, query: int) -> Episode:
    """Episodes of ``inputs`` numbers to four."""
    g = torch.Generator().manual_seed(1)

    def batch(n: int) -> Batch:
        return Batch(*(torch.randn(TASKS, n, w, generator=g, dtype=torch.float64) for w in (inputs, 4)))

    return Episode(batch(support), batch(query), torch.arange(TASKS))


def convolution(kind: str) -> nn.Module:
    """One Conv2d, 2 -> 4."""
    torch.manual_seed(0)
    options = {
        "plain": {"bias": False},
        "bias": {},
        "odd": {"stride": 2, "padding": (1, 2), "dilation": (1, 2)},
        "dense": {"bias": False},
        "kronecker": {},
        "factors": {"bias": False},
        "frozen": {"bias": False},
    }[kind]
    model = nn.Conv2d(2, 4, 3, **options).double()
    if kind == "dense":
        ms.reparameterize(model, "dense", filter_size=5, std=0.3, filter_std=0.5)
    elif kind == "kronecker":
        ms.reparameterize(model)
    elif kind == "factors":
        shapes = ((4, 3), (2, 2), (9, 5))
        factors = [torch.randn(shape, dtype=torch.float64) / 2 for shape in shapes]
        ms.reparameterize(model, lambda n, m: ms.KroneckerSymmetry(m.weight.shape, factors=factors))
    elif kind == "frozen":
        U = torch.linalg.qr(torch.randn(72, 6, dtype=torch.float64)).Q
        ms.reparameterize(model, lambda n, m: ms.DenseSymmetry(m.weight.shape, U=U, learnable=False))
    return model


def kronecker_convolution(how: str) -> nn.Module:
    """Factors that are learned ``"apart"``, are ``"frozen"``, or of which two are ``"one tensor"``."""
    torch.manual_seed(0)
    factors = [torch.randn(size, size, dtype=torch.float64) / 2 for size in (3, 3, 9)]
    if how == "one tensor":
        factors[1] = factors[0]
    U = ms.KroneckerSymmetry((3, 3, 3, 3), factors=factors, learnable=how != "frozen")
    if how == "one tensor":
        U.U2 = U.U1
    return ms.reparameterize(nn.Conv2d(3, 3, 3, bias=False).double(), lambda n, m: U)


def images_to_images(model: nn.Module, size: int = 7) -> Episode:
    """Images of ``size`` and as large outputs as the convolution makes of them."""
    g = torch.Generator().manual_seed(1)
    channels = model.in_channels

    def batch(n: int) -> Batch:
        x = torch.randn(TASKS, n, channels, size, size, generator=g, dtype=torch.float64)
        with torch.no_grad():
            shape = model(x[0]).shape
        return Batch(x, torch.randn(TASKS, *shape, generator=g, dtype=torch.float64))

    return Episode(batch(1), batch(2), torch.arange(TASKS))


def blocks(channels: int, norm: type[nn.Module], *, bias: bool = True) -> nn.Sequential:
    options = {"track_running_stats": False} if norm is nn.BatchNorm2d else {}
    return nn.Sequential(
        nn.Conv2d(2, channels, 3, padding=1, bias=bias), norm(channels, **options), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, channels, 3, padding=1, stride=2), norm(channels, **options), nn.ReLU(),
    )  # fmt: skip


def plain() -> nn.Module:
    return nn.Sequential(*blocks(6, TaskBatchNorm2d), nn.Flatten(), nn.Linear(54, 3))


class Written(nn.Module):
    """As people write networks: parts, functions between them, a pooling that is their own."""

    def __init__(self) -> None:
        super().__init__()
        self.features = blocks(6, nn.BatchNorm2d, bias=False)
        self.extra = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(6, 4, 2), act=nn.Softplus(), norm=nn.GroupNorm(2, 4))
        )
        self.hidden = nn.Linear(16, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.hidden(self.extra(self.features(x)).flatten(1))))


class Shifted(nn.Module):
    """Adds a buffer, which keeps its own type."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.linspace(-1, 1, 54, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmv(x[:, 0] * 0, x, self.shift).unsqueeze(1) + x


def buffered() -> nn.Module:
    return nn.Sequential(*blocks(6, TaskBatchNorm2d), nn.Flatten(), Shifted(), nn.Linear(54, 3))


def filtered() -> nn.Module:
    """Convolutions that Winograd's algorithm knows: both kernels, padded and not, before a norm and not."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 5, padding=2), TaskBatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 9, 3, padding=1), TaskBatchNorm2d(9), nn.ReLU(),
        nn.Conv2d(9, 8, 3), nn.Softplus(), nn.Flatten(), nn.Linear(72, 3),
    )  # fmt: skip


def fields() -> nn.Module:
    """Norms of fields of three channels, with ReLU and pooling after them and without."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), StackFields(3), TaskBatchNorm2d(2), nn.ReLU(), UnstackFields(3),
        nn.MaxPool2d(2), nn.Conv2d(6, 9, 3, stride=2), StackFields(3), TaskBatchNorm2d(3), UnstackFields(3),
        nn.Softplus(), nn.Flatten(), nn.Linear(36, 3),
    )  # fmt: skip


NETWORKS = {"plain": plain, "written": Written, "filtered": filtered, "fields": fields, "buffered": buffered}


def network(name: str, reparam: str | None) -> nn.Module:
    """A chain of layers with norms, images of 11 x 11 with two channels to three classes."""
    torch.manual_seed(0)
    model = NETWORKS[name]().double()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.5 * torch.randn_like(p))  # scales of both signs
    if reparam == "joint bias":
        ms.reparameterize(model, bias="joint")
    elif reparam is not None:
        ms.reparameterize(model, reparam)
    return model


def labelled_images(tasks: int = TASKS, dtype: torch.dtype = torch.float64) -> Episode:
    """Support sets with one example of each class; queries of any."""
    g = torch.Generator().manual_seed(1)

    def batch(n: int) -> Batch:
        x = torch.randn(tasks, n, 2, 11, 11, generator=g, dtype=dtype)
        return Batch(x, torch.randint(0, 3, (tasks, n), generator=g))

    support = batch(3)._replace(y=torch.arange(3).repeat(tasks, 1))
    return Episode(support, batch(5), torch.arange(tasks))
