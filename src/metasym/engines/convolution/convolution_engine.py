"""The closed form of the meta-gradient of one convolution, from second moments of its patches, as an engine."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from metasym.adaptation.functional import parameters_of
from metasym.engines.closed_engine import ClosedEngine, by_outer_names, refuses_step, refuses_types
from metasym.engines.convolution.moments import ConvolutionPredictor, convolution_predictor
from metasym.engines.convolution.quadratic import LARGEST_BASIS, quadratic_gradient, quadratic_losses
from metasym.engines.description import Adapting, Description, Setting
from metasym.engines.engine import Ways
from metasym.engines.plan import MS_A_CALL, MS_A_MAPPED_CALL, MS_A_MULTIPLY_ADD, Plan
from metasym.engines.reference import adapting
from metasym.types import Episode, OuterLoss, Params


class ConvolutionEngine(ClosedEngine):
    """Small matrices for all tasks at once, in float64."""

    serves: ClassVar[tuple[type[nn.Module], ...]] = (nn.Conv2d,)

    def refuses(self, description: Description, setting: Setting) -> str | None:
        """Anything but the squared loss of one convolution, linear in what adapts, on images with many patches."""
        if not isinstance(description.model, nn.Conv2d):
            return "not one convolution"
        why = refuses_step(description, setting)
        if why is not None:
            return why
        d = adapting(description)
        predict = _predictor(d)
        if predict is None or not predict.linear:
            return "not one plain convolution that is linear in what adapts"
        if setting.device == "mps":
            return "no float64 on this device"
        inner = {name: predict.params[name] for name in d.inner}
        why = refuses_types(setting, next(iter(inner.values())).dtype)
        if why is not None:
            return why
        sizes = setting.sizes
        if not all(predict.pays((count, *sizes.inputs)) for count in (sizes.support, sizes.query)):
            return "fewer patches than a patch has entries"
        if sum(p.numel() for p in inner.values()) * predict.weight_entries > LARGEST_BASIS:
            return "the layer and what adapts of it are too large"
        return None

    def decisions(self, description: Description) -> frozenset[str]:
        """It has none to make."""
        return frozenset()

    def milliseconds(self, description: Description, setting: Setting) -> dict[str, float]:
        """Without the moments, which cost the same in both."""
        d = adapting(description)
        predict = _bind(d)[0]
        entries = sum(predict.params[name].numel() for name in d.inner)
        tasks, steps = setting.sizes.tasks, d.steps
        adds = 3 * tasks * (2 * steps + 1) * entries * predict.weight_entries  # there and back
        closed = 2 * adds * MS_A_MULTIPLY_ADD + (60 + 40 * steps) * MS_A_CALL  # in float64
        mapped = (40 + 30 * steps) * MS_A_MAPPED_CALL + 2 * tasks * MS_A_MAPPED_CALL
        return {"mapped": mapped, "closed": closed}

    def choices(self, description: Description, setting: Setting) -> Plan:
        """It makes none."""
        return ()

    def kernels(self, ways: Ways) -> tuple[str, ...]:
        """The kernel of the moments."""
        return ("patch_moments",)

    def losses(self, description: Description, ways: Ways, episodes: Episode) -> OuterLoss:
        """Differentiable as often as one likes."""
        d = adapting(description)
        return quadratic_losses(
            *_bind(d), episodes, steps=d.steps, rates=d.rates.at, first_order=d.first_order
        )

    def gradient(
        self, description: Description, ways: Ways, episodes: Episode, total_tasks: int
    ) -> tuple[OuterLoss, Params]:
        """Without autograd."""
        d = adapting(description)
        predict, inner = _bind(d)
        losses, by_model, by_rates = quadratic_gradient(
            predict,
            inner,
            episodes,
            steps=d.steps,
            rates=d.rates.at,
            first_order=d.first_order,
            total_tasks=total_tasks,
        )
        learned = {
            name: by_model[name] if name in by_model else torch.zeros_like(p)
            for name, p in predict.params.items()
            if p.requires_grad
        }
        return losses, by_outer_names(d, learned, d.rates.pull_back_entries(by_rates))


def _predictor(d: Adapting) -> ConvolutionPredictor | None:
    return convolution_predictor(d.model, parameters_of(d.model), list(d.inner))


def _bind(d: Adapting) -> tuple[ConvolutionPredictor, Params]:
    predict = _predictor(d)
    assert predict is not None
    return predict, {name: predict.params[name] for name in d.inner}
