"""Every symmetry against its dense matrix, which is the oracle."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from metasym import Cost, DenseSymmetry, KroneckerSymmetry, Symmetry
from tests.refusals import refused

sizes = st.integers(1, 5)


@st.composite
def kronecker(draw: st.DrawFn) -> tuple[KroneckerSymmetry, torch.Generator]:
    """A Kronecker symmetry of a matrix or of a 1-, 2- or 3-dimensional convolution, rectangular factors."""
    spatial = draw(st.integers(0, 3))
    shape = [draw(sizes), draw(sizes), *[draw(st.integers(1, 3)) for _ in range(spatial)]]
    modes = 2 if spatial == 0 else 3
    columns = [draw(sizes) for _ in range(modes)]
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**30)))
    rows = shape[:2] + ([math.prod(shape[2:])] if spatial else [])
    factors = [
        torch.randn(n, k, generator=generator, dtype=dtype) for n, k in zip(rows, columns, strict=True)
    ]
    return KroneckerSymmetry(shape, factors=factors), generator


def tolerance(t: Tensor) -> dict[str, float]:
    return {"atol": 1e-10, "rtol": 1e-10} if t.dtype == torch.float64 else {"atol": 2e-4, "rtol": 2e-4}


@given(kronecker())
def test_kronecker_forward_is_its_dense_matrix(drawn: tuple[KroneckerSymmetry, torch.Generator]) -> None:
    symmetry, generator = drawn
    v = torch.randn(symmetry.filter_shape, generator=generator, dtype=symmetry.factors[0].dtype)
    expected = (symmetry.matrix() @ v.reshape(-1)).reshape(symmetry.weight_shape)
    torch.testing.assert_close(symmetry(v), expected, **tolerance(v))


def test_kronecker_matrix_is_the_product_of_the_design() -> None:
    """vec(U_out V U_in^T) = (U_out (x) U_in) vec(V) with row-major vec, written out with loops."""
    g = torch.Generator().manual_seed(3)
    U_out, U_in, V = (torch.randn(s, generator=g, dtype=torch.float64) for s in [(4, 2), (5, 3), (2, 3)])
    symmetry = KroneckerSymmetry((4, 5), factors=[U_out, U_in])
    W = torch.zeros(4, 5, dtype=torch.float64)
    for i in range(4):
        for j in range(5):
            for a in range(2):
                for b in range(3):
                    W[i, j] += U_out[i, a] * V[a, b] * U_in[j, b]
                    assert symmetry.matrix()[i * 5 + j, a * 3 + b] == U_out[i, a] * U_in[j, b]
    torch.testing.assert_close(symmetry(V), W)


@given(kronecker())
def test_kronecker_under_vmap_and_grad(drawn: tuple[KroneckerSymmetry, torch.Generator]) -> None:
    symmetry, generator = drawn
    dtype = symmetry.factors[0].dtype
    V = torch.randn(3, *symmetry.filter_shape, generator=generator, dtype=dtype)
    target = torch.randn(symmetry.weight_shape, generator=generator, dtype=dtype)
    names = dict(symmetry.named_parameters())

    def loss(params: dict[str, Tensor], v: Tensor) -> Tensor:
        return (torch.func.functional_call(symmetry, params, (v,)) * target).sin().sum()

    def dense(params: dict[str, Tensor], v: Tensor) -> Tensor:
        U = params["U1"]
        for name in list(params)[1:]:
            U = torch.kron(U, params[name])
        return ((U @ v.reshape(-1)).reshape(symmetry.weight_shape) * target).sin().sum()

    ours = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(names, V)
    for i, v in enumerate(V):
        by_U, by_v = torch.func.grad(dense, argnums=(0, 1))(names, v)
        torch.testing.assert_close(ours[1][i], by_v, **tolerance(v))
        for name in names:
            torch.testing.assert_close(ours[0][name][i], by_U[name], **tolerance(v))


@pytest.mark.slow
@pytest.mark.parametrize(
    (
        "shape",
        "backend",
    ),  # what is traced differs by the shape, what inductor makes of it hardly: once is enough
    [((5, 7), "aot_eager"), ((4, 3, 5), "aot_eager"), ((6, 2, 3, 3), "inductor")],
)
def test_kronecker_under_compile(shape: tuple[int, ...], backend: str, generator: torch.Generator) -> None:
    rows = [*shape[:2], *([math.prod(shape[2:])] if len(shape) > 2 else [])]
    factors = [torch.randn(n, n, generator=generator, dtype=torch.float64) for n in rows]
    symmetry = KroneckerSymmetry(shape, factors=factors)
    v = torch.randn(rows, generator=generator, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(symmetry, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(v), (symmetry.matrix() @ v.reshape(-1)).reshape(shape))
    (ours,) = torch.autograd.grad(compiled(v).sin().sum(), v)
    (dense,) = torch.autograd.grad((symmetry.matrix() @ v.reshape(-1)).sin().sum(), v)
    torch.testing.assert_close(ours, dense)


@given(kronecker())
def test_kronecker_right_inverse_is_least_squares(drawn: tuple[KroneckerSymmetry, torch.Generator]) -> None:
    symmetry, generator = drawn
    W = torch.randn(symmetry.weight_shape, generator=generator, dtype=torch.float64)
    symmetry = symmetry.double()
    v = symmetry.right_inverse(W)
    expected = torch.linalg.pinv(symmetry.matrix()) @ W.reshape(-1)
    residual = torch.linalg.vector_norm(symmetry(v) - W)
    best = torch.linalg.vector_norm(symmetry.matrix() @ expected - W.reshape(-1))
    assert residual <= best * (1 + 1e-6) + 1e-8


@given(
    rows=st.tuples(sizes, sizes), k=st.integers(1, 12), seed=st.integers(0, 10**6), dependent=st.booleans()
)
def test_dense_forward_and_right_inverse(rows: tuple[int, int], k: int, seed: int, dependent: bool) -> None:
    g = torch.Generator().manual_seed(seed)
    U = torch.randn(math.prod(rows), k, generator=g, dtype=torch.float64)
    if dependent:
        U[:, -1] = U[:, 0]
    symmetry = DenseSymmetry(rows, U=U)
    v = torch.randn(k, generator=g, dtype=torch.float64)
    W = symmetry(v)
    for i in range(rows[0]):
        for j in range(rows[1]):
            torch.testing.assert_close(W[i, j], U[i * rows[1] + j] @ v)
    found = symmetry.right_inverse(W.detach())
    torch.testing.assert_close(symmetry(found), W, atol=1e-8, rtol=1e-8)
    assert found.norm() <= v.norm() + 1e-8  # of all filters with this weight, the shortest


@pytest.mark.parametrize(
    "symmetry",
    [
        DenseSymmetry((3, 4)),
        KroneckerSymmetry((3, 4)),
        KroneckerSymmetry((3, 4, 2, 2)),
        KroneckerSymmetry((2, 3, 5)),
    ],
)
def test_identity_start_changes_nothing(symmetry: Symmetry, generator: torch.Generator) -> None:
    W = torch.randn(symmetry.weight_shape, generator=generator)
    assert torch.equal(symmetry(symmetry.right_inverse(W)), W)


def test_learnable_or_frozen() -> None:
    assert [n for n, _ in DenseSymmetry((2, 3), 4).named_parameters()] == ["U"]
    frozen = DenseSymmetry((2, 3), 4, learnable=False)
    assert not list(frozen.parameters())
    assert [n for n, _ in frozen.named_buffers()] == ["U"]
    assert [n for n, _ in KroneckerSymmetry((2, 3, 3)).named_parameters()] == ["U1", "U2", "U3"]
    assert not list(KroneckerSymmetry((2, 3), learnable=False).parameters())
    assert "frozen" in repr(frozen)


def test_random_start_is_seeded() -> None:
    draws = [DenseSymmetry((3, 3), 5, generator=torch.Generator().manual_seed(s)).U for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    wide = DenseSymmetry((100, 100), 10, std=0.01, generator=torch.Generator().manual_seed(0)).U
    assert abs(wide.std().item() - 0.01) < 1e-4


def test_cost_counts_what_is_stored_and_multiplied() -> None:
    dense = DenseSymmetry((4, 5), 7).cost()
    assert dense == Cost(20, 140, 7, 140, 4)
    square = KroneckerSymmetry((64, 64)).cost()
    assert square.memory_ratio == 3.0  # Appendix A: three times for m = n
    assert (square.bytes, square.plain_bytes) == (3 * 4096 * 4, 4096 * 4)
    assert square.build_multiply_adds == 2 * 64**3  # two more products of the size of W
    # [3, 4, 2] -> [5, 6, 9] : the order 2-mode last is not the cheapest; check against all six by hand.
    rectangular = KroneckerSymmetry((5, 6, 3, 3), (3, 4, 2)).cost()
    by_hand = {
        (0, 1, 2): 24 * 5 + 5 * 4 * 2 * 6 + 5 * 6 * 2 * 9,
        (0, 2, 1): 24 * 5 + 5 * 4 * 2 * 9 + 5 * 4 * 9 * 6,
        (1, 0, 2): 24 * 6 + 3 * 6 * 2 * 5 + 5 * 6 * 2 * 9,
        (1, 2, 0): 24 * 6 + 3 * 6 * 2 * 9 + 3 * 6 * 9 * 5,
        (2, 0, 1): 24 * 9 + 3 * 4 * 9 * 5 + 5 * 4 * 9 * 6,
        (2, 1, 0): 24 * 9 + 3 * 4 * 9 * 6 + 3 * 6 * 9 * 5,
    }
    assert rectangular.build_multiply_adds == min(by_hand.values())
    assert rectangular.symmetry_entries == 15 + 24 + 18


@pytest.mark.parametrize(
    ("make", "about", "found"),
    [
        (lambda: DenseSymmetry((3, 4), 0), "filter size", 0),
        (lambda: DenseSymmetry((3, 0), 2), "weight shape", (3, 0)),
        (
            lambda: DenseSymmetry((3, 4), U=torch.ones(11, 2)),
            "U",
            (11, 2),
        ),
        (lambda: DenseSymmetry((3, 4), U=torch.ones(12, 0)), "U", (12, 0)),
        (
            lambda: DenseSymmetry((3, 4), 3, U=torch.ones(12, 2)),
            "U",
            (12, 2),
        ),
        (
            lambda: DenseSymmetry((2, 2), U=torch.full((4, 1), math.nan)),
            "U",
            4,
        ),
        (lambda: DenseSymmetry((2, 2), U=torch.ones(4, 1).long()), "U", torch.int64),
        (lambda: DenseSymmetry((2, 2), U=[[1.0]] * 4), "U", "list"),
        (lambda: DenseSymmetry((2, 2))(torch.ones(5)), "filter", (5,)),
        (
            lambda: DenseSymmetry((2, 2)).right_inverse(torch.ones(4)),
            "weight",
            (4,),
        ),
        (lambda: KroneckerSymmetry((4,)), "weight shape", (4,)),
        (lambda: KroneckerSymmetry((4, 3), (4, 3, 2)), "filter shape", (4, 3, 2)),
        (lambda: KroneckerSymmetry((4, 3), (4, 0)), "filter shape", (4, 0)),
        (lambda: KroneckerSymmetry((4, 3), factors=[torch.eye(4)]), "factors", 1),
        (
            lambda: KroneckerSymmetry((4, 3), factors=[torch.eye(4), torch.eye(4)]),
            "factor 1",
            (4, 4),
        ),
        (
            lambda: KroneckerSymmetry((2, 2), (2, 1), factors=[torch.eye(2), torch.eye(2)]),
            "factors",
            (2, 2),
        ),
    ],
)
def test_bad_input_is_one_line(make: object, about: str, found: object) -> None:
    with refused(about, found):
        make()  # type: ignore[operator]
