"""The learner that is fitted by evidence, as a Python user calls it."""

import pytest
import torch
import torch.nn.functional as F

import metasym as ms
from tests.evidence.families import examples, shifted
from tests.refusals import refused

N = 4


@pytest.fixture(scope="module")
def data():
    x, y = examples(shifted(80, N), 10, noise=0.1)
    return ms.Batch(x.float(), y.float())


def fitted(data, **options):
    learner = ms.EvidenceMSR(N, N, **options)
    learner.fit(ms.Batch(data.x[:60], data.y[:60]))
    return learner


def test_it_adapts_to_new_tasks_from_one_example(data):
    learner = fitted(data)
    episodes = ms.Episode(
        ms.Batch(data.x[60:, :1], data.y[60:, :1]),
        ms.Batch(data.x[60:, 1:], data.y[60:, 1:]),
        torch.arange(20),
    )
    scores = learner.scores(episodes, F.mse_loss)
    assert scores.shape == (20,)
    one = learner.adapt(ms.Batch(data.x[60, :1], data.y[60, :1]))
    assert type(one) is torch.nn.Linear
    assert F.mse_loss(one(data.x[60, 1:]), data.y[60, 1:]).item() == pytest.approx(float(scores[0]), rel=1e-4)
    prediction = learner.predict(ms.Batch(data.x[60, :1], data.y[60, :1]), data.x[60, 1:])
    torch.testing.assert_close(prediction, one(data.x[60, 1:]).detach())
    assert float(scores.mean()) < 0.5 * float(data.y[60:].square().mean())


def test_lists_of_tasks_and_offsets(data):
    learner = ms.EvidenceMSR(N, N, bias=True)
    learner.fit(
        [ms.Batch(x[: 5 + t % 3], y[: 5 + t % 3] + 7) for t, (x, y) in enumerate(zip(*data, strict=True))]
    )
    one = learner.adapt(ms.Batch(data.x[0], data.y[0] + 7))
    assert F.mse_loss(one(data.x[0]), data.y[0] + 7).item() < 0.1


def test_saved_and_loaded_and_inspected(data, tmp_path):
    learner = fitted(data)
    ms.save(learner, tmp_path / "l.safetensors")
    again = ms.load(tmp_path / "l.safetensors", ms.EvidenceMSR(N, N, directions=learner.prior.directions))
    torch.testing.assert_close(again.prior.U, learner.prior.U)
    assert again.prior.noise == learner.prior.noise
    assert ms.inspect(learner.model)[0].group.name == "Z_4"


def test_bad_input_is_one_line(data):
    with refused("inputs, outputs", (4, 4)):
        ms.EvidenceMSR(3, 3).fit(data)
    with refused("EvidenceMSR", "outer steps"):
        ms.EvidenceMSR(N, N).outer_loss(None)
    with refused("in_features", 0):
        ms.EvidenceMSR(0, 3)
