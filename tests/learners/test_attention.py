"""Transformers, recurrent networks, and examples as plain pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import metasym as ms
from metasym.types import as_batch
from tests.refusals import refused


class Encoder(nn.Module):
    """A transformer without dropout, for which torch takes a fused kernel that has no second derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(x).mean(1))


def episodes(generator: torch.Generator) -> ms.Episode:
    x, y = torch.randn(2, 3, 6, 5, 8, generator=generator), torch.randn(2, 3, 6, 2, generator=generator)
    return ms.Episode(ms.Batch(x[0], y[0]), ms.Batch(x[1], y[1]), torch.arange(3))


@pytest.mark.parametrize("mode", ["vmap", "loop"])
def test_a_transformer_without_dropout_is_differentiated_twice(generator, mode):
    torch.manual_seed(0)
    found = episodes(generator)
    learner = ms.MSR(ms.reparameterize(Encoder().double()), inner_steps=2, map=mode)
    found = ms.Episode(
        *(ms.Batch(b.x.double(), b.y.double()) for b in (found.support, found.query)), found.ids
    )
    gradient = learner.outer_gradient(found)[1]
    name, parameter = max(learner.outer_parameters().items(), key=lambda item: gradient[item[0]].abs().max())
    place = int(gradient[name].abs().argmax())
    values = []
    for change in (1e-5, -1e-5):
        with torch.no_grad():
            parameter.view(-1)[place] += change
            values.append(float(learner.outer_loss(found).query.mean()))
            parameter.view(-1)[place] -= change
    assert gradient[name].view(-1)[place].item() == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)


def test_weights_that_stay_plain_are_named_once_for_the_whole_model_and_not_for_chosen_layers():
    model = nn.ModuleDict({"encoder": Encoder(), "pairs": nn.Bilinear(2, 3, 4)})
    with pytest.warns(ms.MetasymWarning) as caught:
        ms.reparameterize(model)
    (said,) = (str(one.message) for one in caught)
    assert "pairs (Bilinear: weight)" in said
    assert "encoder" not in said
    assert "norm" not in said
    ms.reparameterize(Encoder(), select="out")  # a warning would be an error here


def test_a_pair_is_a_batch():
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    learner = ms.MAML(nn.Linear(3, 2), inner_steps=1)
    expected = learner.adapt(ms.Batch(x, y))(x)
    doubles = x.double().numpy(), y.double().numpy()  # as NumPy makes them
    for pair in ((x, y), [x, y], (x.numpy(), y.numpy()), doubles, ms.Batch(*doubles)):
        torch.testing.assert_close(learner.adapt(pair)(x), expected, rtol=0, atol=0)
        torch.testing.assert_close(learner.predict(pair, x), expected, rtol=0, atol=0)
        torch.testing.assert_close(learner.predict(pair, doubles[0]), expected, rtol=0, atol=0)
    labels = torch.tensor([0, 1, 0, 1])
    prototypes = ms.ProtoNet(nn.Linear(3, 2))
    assert prototypes.adapt((x, labels))(x).shape == (4, 2)


@pytest.mark.parametrize(
    ("wrong", "about", "found"),
    [
        (torch.ones(3), "batch", "Tensor"),
        ((torch.ones(3),), "batch", 1),
        ("ab", "batch", "str"),
        ((1, object()), "x, y", "object"),
        (np.ones(3), "batch", "ndarray"),
    ],
)
def test_what_is_no_pair_is_said_in_one_line(wrong, about, found):
    with refused(about, found):
        as_batch(wrong)


class Recurrent(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.out = layer, nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(x)[0][:, -1])


@pytest.mark.parametrize(
    ("layer", "width"),
    [
        (lambda: nn.LSTM(8, 4, batch_first=True), 4),
        (lambda: nn.LSTM(8, 4, num_layers=2, bidirectional=True, batch_first=True, bias=False), 8),
        (lambda: nn.LSTM(8, 4, proj_size=3, batch_first=True), 3),
        (lambda: nn.GRU(8, 4, num_layers=2, batch_first=True), 4),
        (lambda: nn.GRU(8, 4, bidirectional=True, batch_first=True, bias=False), 8),
        (lambda: nn.RNN(8, 4, batch_first=True), 4),
        (lambda: nn.RNN(8, 4, nonlinearity="relu", batch_first=True), 4),
    ],
)
def test_recurrent_layers_are_mapped_over_tasks_as_torch_computes_them_one_by_one(generator, layer, width):
    torch.manual_seed(0)
    model, found = Recurrent(layer(), width).double(), episodes(generator)
    found = ms.Episode(
        *(ms.Batch(b.x.double(), b.y.double()) for b in (found.support, found.query)), found.ids
    )
    assert ms.MAML(model, inner_steps=2).map == "vmap"
    gradients = []
    for mode in ("vmap", "loop"):
        losses, gradient = ms.MAML(model, inner_steps=2, map=mode).outer_gradient(found)
        gradients.append({**gradient, "losses": losses.query})
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-9, atol=1e-12)
