"""MSR for one linear layer, learned by its evidence: no outer steps, and adaptation by the posterior mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.evidence import Fitted, Prior, TaskStatistics, fit_prior
from metasym.learners.base import Learner, Metric, check_count
from metasym.symmetry.matrices import DenseSymmetry
from metasym.symmetry.reparam import reparameterize, symmetries
from metasym.types import Batch, Episode, MetasymError, OuterLoss, Params, as_batch


class EvidenceMSR(Learner):
    """Learns the prior of tasks ``y = W_t x + noise`` with ``vec(W_t) = mean + U v_t`` and ``v_t ~ N(0, I)``.

    :meth:`fit` maximizes the marginal likelihood of all examples of all tasks over mean, U and noise, and finds
    the number of directions of U on the way. :meth:`adapt` takes the posterior mean, the best prediction under the
    model.

    Args:
        in_features: Inputs of the linear layer.
        out_features: Its outputs.
        bias: Whether every task also has its own offset.
        directions: Number of directions of U of a learner to load a file into.

    Example:
        >>> import metasym as ms
        >>> data = ms.tasks.planted("signed8", tasks=60)
        >>> learner = ms.EvidenceMSR(8, 8)
        >>> _ = learner.fit(ms.Batch(data.x, data.y))
        >>> type(learner.adapt(ms.Batch(data.x[0, :2], data.y[0, :2]))).__name__
        'Linear'
    """

    mean: Tensor
    noise: Tensor

    @checked
    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = False, directions: int | None = None
    ) -> None:
        n, m = check_count("in_features", in_features, 1), check_count("out_features", out_features, 1)
        k = m * n if directions is None else check_count("directions", directions, 1)
        super().__init__(_layer(torch.zeros(m * n, k, dtype=torch.float64), m, n), F.mse_loss)
        self.bias = bias
        self.register_buffer("mean", torch.zeros(m, n, dtype=torch.float64))
        self.register_buffer("noise", torch.ones((), dtype=torch.float64))

    def fit(
        self,
        tasks: Batch | TaskStatistics | Sequence[Batch],
        validation: Batch | TaskStatistics | Sequence[Batch] | None = None,
        *,
        directions: int | None = None,
    ) -> Fitted:
        """Learn from all examples of the tasks: ``x [T, N, n]`` and ``y [T, N, m]``, or a Batch for each task.

        ``validation`` tasks decide how many directions there are; by default a sixth of ``tasks`` does.
        """
        held_out = None if validation is None else self._statistics(validation)
        found = fit_prior(self._statistics(tasks), held_out, directions=directions)
        self.set_prior(found.prior)
        return found

    @property
    def prior(self) -> Prior:
        """What was learned."""
        (symmetry,) = symmetries(self.model).values()
        return Prior(self.mean, symmetry.matrix().detach(), float(self.noise))

    def set_prior(self, prior: Prior) -> None:
        """Put a prior, of any number of directions, in the place of what was learned."""
        m, n = self.mean.shape
        if tuple(prior.mean.shape) != (m, n):
            raise MetasymError(
                f"expected a prior of weights [{m}, {n}], found {list(prior.mean.shape)}",
                about="prior",
                found=tuple(prior.mean.shape),
            )
        self.model = _layer(prior.U.double(), m, n)
        self.mean = prior.mean.double().clone()
        self.noise = torch.tensor(prior.noise, dtype=torch.float64)

    def weights(self, support: Batch) -> tuple[Tensor, Tensor]:
        """The posterior means ``[T, m, n]`` and offsets ``[T, m]`` of tasks ``x [T, N, n]``, ``y [T, N, m]``."""
        tasks = self._statistics(support)
        found = self.prior.weights(tasks)
        return found, tasks.y_mean - (found @ tasks.x_mean[:, :, None]).squeeze(2)

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """An ``nn.Linear`` with the posterior mean of one task's weights. ``inner_steps`` has no meaning here."""
        support = as_batch(support)
        weight, offset = self.weights(Batch(support.x.unsqueeze(0), support.y.unsqueeze(0)))
        m, n = self.mean.shape
        layer = nn.Linear(n, m, bias=self.bias, dtype=support.x.dtype)
        with torch.no_grad():
            layer.weight.copy_(weight[0])
            if self.bias:
                layer.bias.copy_(offset[0])
        return layer.eval()

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Predictions at ``x [examples, n]`` after adapting to one task."""
        with torch.no_grad():
            found: Tensor = self.adapt(support)(x)
        return found

    def predictive(self, support: Batch, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and variance, noise included, of the outputs at ``x [T, q, n]`` of tasks with some examples."""
        return self.prior.predictive(self._statistics(support), x)

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets, ``[tasks]``."""
        weights, offsets = self.weights(episodes.support)
        predictions = (episodes.query.x.double() @ weights.mT + offsets[:, None]).to(episodes.query.y.dtype)
        pairs = zip(predictions, episodes.query.y, strict=True)
        return torch.stack([metric(prediction, target) for prediction, target in pairs])

    def outer_parameters(self) -> Params:
        """None: there are no outer steps."""
        return {}

    def outer_loss(self, episodes: Episode) -> OuterLoss:
        """There is none."""
        raise MetasymError(
            "expected EvidenceMSR to be fitted by its fit(tasks), found outer steps",
            about="EvidenceMSR",
            found="outer steps",
        )

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {**super().describe(), "bias": self.bias}

    def _statistics(self, tasks: Batch | TaskStatistics | Sequence[Batch]) -> TaskStatistics:
        if isinstance(tasks, Batch):
            found = TaskStatistics.of(tasks.x, tasks.y, offset=self.bias)
        elif isinstance(tasks, TaskStatistics):
            found = tasks
        else:
            found = TaskStatistics.of([t.x for t in tasks], [t.y for t in tasks], offset=self.bias)
        if (found.outputs, found.inputs) != tuple(self.mean.shape):
            m, n = self.mean.shape
            raise MetasymError(
                f"expected {n} inputs and {m} outputs, found {found.inputs} and {found.outputs}",
                about="inputs, outputs",
                found=(found.inputs, found.outputs),
            )
        return found


def _layer(U: Tensor, outputs: int, inputs: int) -> nn.Module:
    """A linear layer whose weight is ``U v``, for ``ms.inspect`` and ``ms.save_symmetry``."""
    layer = nn.Linear(inputs, outputs, bias=False, dtype=torch.float64)
    symmetry = DenseSymmetry(layer.weight.shape, U=U, learnable=False)
    return reparameterize(layer, lambda _name, _module: symmetry, filter_std=0.0)
