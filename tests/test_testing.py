"""The assertions that users get: they must fail when they should."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.testing import assert_equivariant, equivariance_error
from tests.refusals import refused


def circulant(dtype: torch.dtype) -> nn.Module:
    layer = nn.Linear(4, 4, bias=False, dtype=dtype)
    U = ms.groups.symmetry_matrix(ms.groups.cyclic(4)).to(dtype)
    return ms.reparameterize(layer, lambda n, m: ms.DenseSymmetry(m.weight.shape, U=U), filter_std=1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_passes_and_fails(dtype: torch.dtype, generator: torch.Generator) -> None:
    G = ms.groups.cyclic(4)
    x = torch.randn(3, 4, dtype=dtype, generator=generator)
    layer = circulant(dtype)
    assert_equivariant(layer, x, G, G.regular())
    assert equivariance_error(layer, x, G, G.regular()).shape == (4,)
    W = ms.bake(layer).weight.data
    small = 1e-8 if dtype == torch.float64 else 1e-3
    W[0, 0] += small  # far above the tolerance for the type, far below anything one would see
    with pytest.raises(AssertionError, match=r"not equivariant: element \d of 4 has relative error"):
        assert_equivariant(layer, x, G, G.regular())
    assert_equivariant(layer, x, G, G.regular(), tolerance=10 * small)


def test_it_names_the_worst_element_and_finds_nan() -> None:
    G = ms.groups.cyclic(3)

    def broken(x: Tensor) -> Tensor:  # equivariant but for where the largest entry comes first
        return x * 1.5 if x[..., 0].argmax() == 0 and x[0, 0] > x[0, 1] else x

    with pytest.raises(AssertionError, match="element [12] of 3"):
        assert_equivariant(broken, torch.tensor([[3.0, 1.0, 2.0]]), G, G)
    with pytest.raises(AssertionError, match="error nan"):
        assert_equivariant(lambda x: x * torch.tensor([1.0, torch.nan, 1.0]), torch.ones(1, 3), G, G)


def test_callables_for_images(generator: torch.Generator) -> None:
    """A frozen steerable basis makes an ordinary Conv2d equivariant, through reparameterize."""
    basis = ms.groups.conv_basis(3, 8, flips=True, fields_out=2)
    conv = nn.Conv2d(1, basis.channels_out, 3, bias=False).double()
    frozen = ms.DenseSymmetry(basis.shape, U=basis.orthonormal(), learnable=False)
    ms.reparameterize(conv, lambda n, m: frozen, filter_std=1.0, generator=generator)
    _, channels = basis.permutations

    def quarter(x: Tensor) -> Tensor:
        return torch.rot90(x, 1, (-2, -1))

    def moved(element: int, turn: bool, flip: bool) -> tuple:
        def space(x: Tensor) -> Tensor:
            x = x.flip(-1) if flip else x
            return quarter(x) if turn else x

        def fields(y: Tensor) -> Tensor:
            out = torch.empty_like(y)
            out[:, channels[element]] = space(y)
            return out

        return space, fields

    # Elements r^0 .. r^7, then r^k f: the identity, a quarter turn (r^2), the flip (f) and both.
    pairs = [moved(0, False, False), moved(2, True, False), moved(8, False, True), moved(10, True, True)]
    x = torch.randn(2, 1, 7, 7, dtype=torch.float64, generator=generator)
    assert_equivariant(conv, x, [p[0] for p in pairs], [p[1] for p in pairs])
    plain = nn.Conv2d(1, basis.channels_out, 3, bias=False).double()
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(plain, x, [p[0] for p in pairs], [p[1] for p in pairs])


def test_an_equivariant_bias_by_the_appended_input() -> None:
    """The appended 1 carries the trivial representation: one basis for weight and bias together."""
    G = ms.groups.dihedral(4)
    U = ms.groups.equivariant_basis(G.direct_sum(G.trivial_rep()), G)
    layer = nn.Linear(4, 4).double()
    ms.reparameterize(layer, lambda n, m: ms.DenseSymmetry((4, 5), U=U, learnable=False), bias="joint")
    assert layer.bias.abs().max() > 0
    assert_equivariant(layer, torch.randn(3, 4, dtype=torch.float64), G, G)


@pytest.mark.parametrize(
    ("act", "about", "found"),
    [
        (lambda G: assert_equivariant(nn.Identity(), torch.zeros(1, 4), G, G), "x", 0),
        (
            lambda G: assert_equivariant(
                nn.Identity(), torch.ones(1, 4), G, ms.groups.cyclic(2) * ms.groups.cyclic(2)
            ),
            "action_in, action_out",
            ("C_4", "C_2 x C_2"),
        ),
        (lambda G: assert_equivariant(nn.Identity(), torch.ones(1, 5), G, G), "x", 5),
        (
            lambda G: assert_equivariant(nn.Identity(), torch.ones(1, 5), [], []),
            "action_in, action_out",
            (0, 0),
        ),
    ],
)
def test_bad_input_is_one_line(act, about: str, found: object) -> None:
    with refused(about, found):
        act(ms.groups.cyclic(4))


class OneStep(ms.Learner):
    """A learner as most write it: the inner gradient by ``torch.autograd.grad``."""

    detach = False
    """Leave out how the step depends on the start: a wrong gradient."""

    def outer_parameters(self) -> dict[str, Tensor]:
        return {"model.weight": self.model.weight}

    def outer_loss(self, episodes: ms.Episode) -> ms.OuterLoss:
        (sx, sy), (qx, qy) = episodes.support, episodes.query
        losses = []
        for i in range(len(sx)):
            weight = self.model.weight
            inner = self.loss(sx[i] @ weight.T, sy[i])
            (gradient,) = torch.autograd.grad(inner, weight, create_graph=True)
            adapted = weight - 0.3 * (gradient.detach() if self.detach else gradient)
            losses.append(self.loss(qx[i] @ adapted.T, qy[i]))
        query = torch.stack(losses)
        return ms.OuterLoss(query, query.detach(), query.detach())

    def adapt(self, support, *, inner_steps=None):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    def predict(self, support, x, *, inner_steps=None):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    def scores(self, episodes, metric, *, inner_steps=None):  # type: ignore[no-untyped-def]
        raise NotImplementedError


def test_a_learner_that_takes_gradients_itself_can_be_checked(generator: torch.Generator) -> None:
    x, y = (torch.randn(3, 6, k, dtype=torch.float64, generator=generator) for k in (4, 2))
    episodes = ms.tasks.sample(ms.tasks.ArrayTasks(x, y, support=3), torch.arange(3), seed=0)
    learner = OneStep(nn.Linear(4, 2, bias=False, dtype=torch.float64), nn.functional.mse_loss)
    with torch.no_grad():  # as a test that has switched it off
        ms.testing.assert_meta_gradient(learner, episodes)
    learner.detach = True
    with pytest.raises(AssertionError, match=r"meta-gradient of 'model.weight'"):
        ms.testing.assert_meta_gradient(learner, episodes)
