"""The networks that ``studies.omniglot_to_mnist`` compares: what of Omniglot's training each of them carries.

All are the paper's conv net for Omniglot with a new head for ten classes. U and the starts come from the four
convolutions and their norms; the head of Omniglot's tasks tells five classes apart and is left behind in every arm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import metasym as ms
from metasym.engines.layerwise.chain import chain_of
from metasym.models import few_shot_network
from metasym.models.conv_blocks import ConvNet
from metasym.storage.atomic import read_bytes, write_atomically
from metasym.storage.serialization import pack, unpack
from metasym.symmetry.matrices import KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import list_of
from metasym.tasks import seeded
from metasym.types import Batch, Loss

ARMS = {
    "plain": "plain network, random start",
    "maml-start": "plain network, MAML's start",
    "msr-weights": "plain network, start at MSR's weights U v (no symmetry)",
    "msr-u": "MSR's U frozen, random start of v",
    "msr-u-start": "MSR's U frozen, MSR's start of v",
    "d8": "D_8 built in, random start",
}
NEEDS = {"maml-start": "maml", "msr-weights": "msr", "msr-u": "msr", "msr-u-start": "msr"}
"""What was learned on Omniglot, by the arms that use it."""
CLASSES = 10
_FEATURES = "features."
_PARAMETRIZED = ".parametrizations.weight."
_MODEL = "model."


def keep(runs: dict[str, Path], folder: Path) -> list[Path]:
    """Write the features' state of runs (``msr``, ``maml``) as small files beside the results.

    Of a run that is not finished the state of its last checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, run in runs.items():
        finished = (run / "result.json").exists()
        state, about = _finished(run) if finished else _last_checkpoint(run)
        features = {key: value for key, value in state.items() if key.startswith(_FEATURES)}
        path = folder / f"{name}.safetensors"
        write_atomically(
            path, pack({"kind": "omniglot features", **about, "state": features}), what="features"
        )
        written.append(path)
    return written


def _finished(run: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    opened: Any = ms.open_run(run)
    about = {"experiment": opened.experiment.name, "recipe": opened.experiment.recipe_name}
    return opened.model.state_dict(), {**about, "accuracy": opened.scores.mean}


def _last_checkpoint(run: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """With the accuracy of the last validation before it."""
    path = run / "checkpoint.safetensors"
    stored, config = unpack(read_bytes(path), str(path)), json.loads((run / "config.json").read_text())
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scores = [
        one["validation"]
        for one in records
        if one["step"] <= stored["step"] and one["validation"] is not None
    ]
    state = {name.removeprefix(_MODEL): value for name, value in stored["learner"].items()}
    about = {"experiment": config["name"], "recipe": config["recipe_name"], "steps": stored["step"]}
    return state, {**about, "of_steps": config["recipe"]["outer_steps"], "validation_accuracy": scores[-1]}


def kept(name: str, folder: Path) -> dict[str, Tensor]:
    """The state that :func:`keep` wrote."""
    path = folder / f"{name}.safetensors"
    state: dict[str, Tensor] = unpack(read_bytes(path), str(path))["state"]
    return state


def network(arm: str, seed: int, learned: dict[str, Tensor]) -> ConvNet:
    """The network of an arm; ``learned`` is the state of Omniglot's features, unused by arms without one."""
    if arm == "d8":
        return few_shot_network("omniglot", 1, CLASSES, "conv4-d8", seeded(seed))
    model = few_shot_network("omniglot", 1, CLASSES, "conv4", seeded(seed))
    if arm == "plain":
        return model
    random = {name: layer.weight.detach().clone() for name, layer in _convolutions(model)}
    if NEEDS[arm] == "msr":
        _put_frozen(model, learned)
    if arm == "msr-u":
        with torch.no_grad():
            for name, layer in _convolutions(model):
                v = list_of(layer).original
                v.copy_(random[name].view_as(v))
        return model
    starts = {name.removeprefix(_FEATURES): value for name, value in learned.items() if ".0.U" not in name}
    missing, unexpected = model.features.load_state_dict(starts, strict=False)
    assert not unexpected
    assert all(".0.U" in name for name in missing), missing
    if arm == "msr-weights":
        for _, layer in _convolutions(model):
            nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    return model


class Layerwise:
    """Gradients and outputs of a network by metasym's own kernels: equal up to rounding, three times as fast."""

    def __init__(self, model: ConvNet) -> None:
        self.model = model
        chain = chain_of(model)
        assert chain is not None
        self._chain = chain.by("winograd")

    def backward(self, x: Tensor, y: Tensor, loss: Loss) -> None:
        """Add the gradient of the loss to that of every parameter that learns."""
        weights = self._chain.effective(dict(self.model.named_parameters()))
        at = {name: weight.detach() for name, weight in weights.items()}
        gradients = self._chain.gradient(at, Batch(x, y), loss, keep=False)[1]
        learning = [name for name in gradients if weights[name].requires_grad]
        torch.autograd.backward([weights[n] for n in learning], [gradients[n] for n in learning])

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """``[images, classes]``."""
        return self._chain.predict(self._chain.effective(dict(self.model.named_parameters())), x)


def _convolutions(model: ConvNet) -> list[tuple[str, nn.Conv2d]]:
    return [(name, layer) for name, layer in model.features.named_children() if isinstance(layer, nn.Conv2d)]


def _put_frozen(model: ConvNet, learned: dict[str, Tensor]) -> None:
    """Give every convolution the U of the one of its name."""

    def frozen(name: str, module: nn.Module) -> Symmetry:
        start = f"{_FEATURES}{name}{_PARAMETRIZED}0."
        factors = [learned[key] for key in sorted(learned) if key.startswith(start)]
        assert isinstance(module.weight, Tensor)
        return KroneckerSymmetry(module.weight.shape, factors=factors, learnable=False)

    ms.reparameterize(model.features, frozen)
