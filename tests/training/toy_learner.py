"""The smallest learner and task family that exercise the outer loop."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from metasym.learners import MSR
from metasym.learners.base import Learner
from metasym.symmetry.reparam import reparameterize
from metasym.types import Batch, Episode, OuterLoss


class ToyMAML(Learner):
    """One-step second-order MAML, a plain ``create_graph`` loop over tasks, with a learned step size."""

    def __init__(self, model, loss=F.mse_loss, *, inner_lr=0.1, chunk_size=None):
        super().__init__(model, loss, chunk_size=chunk_size)
        self.inner_lr = nn.Parameter(torch.tensor(inner_lr))

    def outer_parameters(self):
        return dict(self.named_parameters())

    def step_sizes(self):
        return {"model": self.inner_lr.item()}

    def _adapt(self, support, *, steps, graph):
        params = dict(self.model.named_parameters())
        losses = []
        for _ in range(steps):
            loss = self.loss(functional_call(self.model, params, support.x), support.y)
            losses.append(loss.detach())
            grads = torch.autograd.grad(loss, list(params.values()), create_graph=graph)
            params = {k: p - self.inner_lr * g for (k, p), g in zip(params.items(), grads, strict=True)}
        return params, losses

    def outer_loss(self, episodes):
        query, before, after = [], [], []
        for i in range(episodes.count):
            support = Batch(episodes.support.x[i], episodes.support.y[i])
            params, losses = self._adapt(support, steps=1, graph=True)
            query.append(
                self.loss(functional_call(self.model, params, episodes.query.x[i]), episodes.query.y[i])
            )
            before.append(losses[0])
            after.append(self.loss(functional_call(self.model, params, support.x), support.y).detach())
        return OuterLoss(torch.stack(query), torch.stack(before), torch.stack(after))

    def scores(self, episodes, metric, *, inner_steps=None):
        found = []
        for i in range(episodes.count):
            support = Batch(episodes.support.x[i], episodes.support.y[i])
            params, _ = self._adapt(support, steps=1 if inner_steps is None else inner_steps, graph=False)
            prediction = functional_call(self.model, params, episodes.query.x[i])
            found.append(metric(prediction, episodes.query.y[i]).detach())
        return torch.stack(found)

    def adapt(self, support, *, inner_steps=None):
        raise NotImplementedError

    def predict(self, support, x, *, inner_steps=None):
        raise NotImplementedError


class Lines:
    """Regression tasks ``y = w.x + noise``, one ``w [3]`` a task, near a common one."""

    def __init__(self, count=40, poison=(), *, bad_query=float("nan")):
        self.weights = 1.0 + 0.3 * torch.randn(count, 3, generator=torch.Generator().manual_seed(count))
        self.poison = frozenset(poison)
        self.bad_query = bad_query

    def __len__(self):
        return len(self.weights)

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        x = torch.randn(8, 3, generator=generator)
        y = (x @ self.weights[index])[:, None] + 0.1 * torch.randn(8, 1, generator=generator)
        if index in self.poison:
            y = y.clone()
            y[4:] = self.bad_query
        return Episode(Batch(x[:4], y[:4]), Batch(x[4:], y[4:]), torch.tensor(index))


def learner(*, seed=0, dropout=0.0, **options) -> ToyMAML:
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    layers = [nn.Linear(3, 1)] if not dropout else [nn.Linear(3, 4), nn.Dropout(dropout), nn.Linear(4, 1)]
    made = ToyMAML(nn.Sequential(*layers), **options)
    torch.random.set_rng_state(state)
    return made


def msr(*, seed=0, dropout=0.0, **options) -> MSR:
    """A learner as users have it: MSR on a small reparameterized network."""
    model = learner(seed=seed, dropout=dropout).model
    generator = torch.Generator().manual_seed(seed)
    reparameterize(model, "dense", std=0.3, generator=generator)
    return MSR(model, inner_steps=1, inner_lr=0.1, **options)


def bits(module: nn.Module) -> dict[str, bytes]:
    return {k: v.detach().cpu().contiguous().numpy().tobytes() for k, v in module.state_dict().items()}


def reproducible(record) -> dict:
    return without_times(record.as_dict())


def without_times(record: dict) -> dict:
    return {k: v for k, v in record.items() if k not in ("steps_per_second", "validation_seconds")}


def flat(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])
