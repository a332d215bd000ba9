"""Symmetries: how a layer's weight is built from its filter, ``vec(W) = U v``.

``vec`` is row-major throughout. A ``Symmetry`` owns U, as parameters where it is learned and as
buffers where it is frozen; the filter v lives in the layer (``torch.nn.utils.parametrize`` keeps it
as ``original``), because v is adapted to each task while U is not.
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.symmetry.cost_of_weight import Cost
from metasym.types import MetasymError

_LARGEST_IDENTITY = 2**28
"""Entries of an identity U: a gigabyte in float32."""


class Symmetry(nn.Module, ABC):
    """A linear map from a filter ``v [*filter_shape]`` to a weight ``W [*weight_shape]``.

    Args:
        weight_shape: Shape of the weight W.
        filter_shape: Shape of the filter v.
    """

    weight_shape: torch.Size
    filter_shape: torch.Size

    @checked
    def __init__(self, weight_shape: Sequence[int], filter_shape: Sequence[int]) -> None:
        super().__init__()
        self.weight_shape = _positive(weight_shape, "weight shape")
        self.filter_shape = _positive(filter_shape, "filter shape")

    @abstractmethod
    def forward(self, v: Tensor) -> Tensor:
        """``v [*filter_shape] -> W [*weight_shape]``."""

    @abstractmethod
    def right_inverse(self, W: Tensor) -> Tensor:
        """``W [*weight_shape] -> v [*filter_shape]``: the v of least norm whose weight is nearest to W."""

    @abstractmethod
    def matrix(self) -> Tensor:
        """The dense U ``[prod(weight_shape), prod(filter_shape)]``, however U is stored: the oracle."""

    @abstractmethod
    def cost(self) -> Cost:
        """Entries, bytes and multiply-adds, compared with the plain weight's."""

    @property
    def learnable(self) -> bool:
        """Whether U holds parameters (learned) or buffers (frozen)."""
        return any(True for _ in self.parameters())

    def extra_repr(self) -> str:
        """The shapes, for ``print(model)``."""
        state = "learned" if self.learnable else "frozen"
        return f"weight={tuple(self.weight_shape)}, filter={tuple(self.filter_shape)}, {state}"

    def _check_filter(self, v: Tensor) -> None:
        if v.shape != self.filter_shape:
            want, found = tuple(self.filter_shape), tuple(v.shape)
            raise MetasymError(
                f"expected a filter of shape {want}, found {found}", about="filter", found=found
            )

    def _check_weight(self, W: Tensor) -> None:
        if W.shape != self.weight_shape:
            want, found = tuple(self.weight_shape), tuple(W.shape)
            raise MetasymError(
                f"expected a weight of shape {want}, found {found}", about="weight", found=found
            )

    def _store(self, name: str, value: Tensor, learnable: bool) -> None:
        if learnable:
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value)


class DenseSymmetry(Symmetry):
    """A symmetry matrix U stored whole, ``[prod(weight_shape), k]``.

    Args:
        weight_shape: Shape of the weight W.
        filter_size: Number k of columns, drawn from N(0, std^2). Default: a square U that starts as the identity.
        U: The matrix itself, such as a group's ``symmetry_matrix`` or an equivariant basis.
        std: Standard deviation of the drawn entries.
        learnable: Whether U is a parameter (else a buffer).
        generator: Source of the random numbers.
        dtype: Type of the entries.
        device: Where U is stored.

    Example:
        >>> import torch, metasym as ms
        >>> U = ms.groups.symmetry_matrix(ms.groups.cyclic(3))    # [9, 3]
        >>> ms.DenseSymmetry((3, 3), U=U, learnable=False)(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
        tensor([[1., 2., 3.],
                [3., 1., 2.],
                [2., 3., 1.]], dtype=torch.float64)
    """

    U: Tensor

    @checked
    def __init__(
        self,
        weight_shape: Sequence[int],
        filter_size: int | None = None,
        *,
        U: Tensor | None = None,
        std: float = 0.01,
        learnable: bool = True,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        rows = math.prod(_positive(weight_shape, "weight shape"))
        if U is not None:
            U = checked_matrix(U, "U", rows=rows, columns=filter_size).to(dtype=dtype, device=device)
            U = U.detach().clone()
        elif filter_size is None:
            if rows**2 > _LARGEST_IDENTITY:
                raise MetasymError(
                    f"expected filter_size for a weight of {rows:,} entries, found none: an identity U would have "
                    f"{rows**2:,} entries (a Kronecker symmetry has far fewer)",
                    about="filter_size",
                )
            U = torch.eye(rows, dtype=dtype, device=device)
        else:
            (filter_size,) = _positive([filter_size], "filter size")
            _check_std(std)
            U = std * torch.randn(rows, filter_size, generator=generator, dtype=dtype)
            U = U.to(device=device)
        super().__init__(weight_shape, [U.shape[1]])
        self._store("U", U, learnable)

    def forward(self, v: Tensor) -> Tensor:
        """``v [k] -> W [*weight_shape]``."""
        self._check_filter(v)
        return (self.U @ v).reshape(self.weight_shape)

    @torch.no_grad()
    def right_inverse(self, W: Tensor) -> Tensor:
        """Least squares, by the pseudo-inverse where U has dependent columns."""
        self._check_weight(W)
        w = W.detach().reshape(-1)
        if _is_identity(self.U):
            return w.clone()
        U64, w64 = self.U.detach().cpu().double(), w.cpu().double()
        gram = U64.mT @ U64
        scale = gram.diagonal().mean()
        eye = torch.eye(len(gram), dtype=gram.dtype)
        if torch.allclose(gram, scale * eye, rtol=0.0, atol=1e-6 * float(scale)):
            v: Tensor = U64.mT @ w64 / scale  # an orthonormal basis: no decomposition needed
        else:
            v = torch.linalg.lstsq(U64, w64.unsqueeze(1), driver="gelsd").solution.squeeze(1)
        return v.to(dtype=W.dtype, device=W.device)

    def matrix(self) -> Tensor:
        """U itself."""
        return self.U

    def cost(self) -> Cost:
        """A dense U multiplies every filter entry into every weight entry."""
        rows, k = self.U.shape
        return Cost(rows, rows * k, k, rows * k, self.U.element_size())


class KroneckerSymmetry(Symmetry):
    """``U = U_1 (x) U_2 (x) ...``, never formed: W is V multiplied along each mode by its factor.

    For a matrix W ``[m, n]`` the factors are ``U_out [m, k]`` and ``U_in [n, l]`` with V ``[k, l]``:
    ``W = U_out V U_in^T``, that is ``vec(W) = (U_out (x) U_in) vec(V)`` with row-major vec (the paper's
    shapes for the two are swapped and do not multiply). For a convolution weight ``[C_out, C_in,
    *kernel]`` of any number of spatial dimensions they are ``U_out [C_out, p]``, ``U_in [C_in, q]`` and
    ``U_space [prod(kernel), s]`` with V ``[p, q, s]``.

    Args:
        weight_shape: Shape of the weight W.
        filter_shape: Shape of V. Rectangular factors start as a rectangular identity plus N(0, std^2) noise, so that
            every entry of the filter matters from the first step. Default: square factors that start as identities.
        factors: The matrices themselves.
        std: Standard deviation of that noise.
        learnable: Whether the factors are parameters (else buffers).
        generator: Source of the random numbers.
        dtype: Type of the entries.
        device: Where the factors are stored.
    """

    @checked
    def __init__(
        self,
        weight_shape: Sequence[int],
        filter_shape: Sequence[int] | None = None,
        *,
        factors: Sequence[Tensor] | None = None,
        std: float = 0.01,
        learnable: bool = True,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        shape = _positive(weight_shape, "weight shape")
        if len(shape) < 2:
            raise MetasymError(
                f"expected a weight of at least two dimensions for a Kronecker symmetry, found {tuple(shape)}",
                about="weight shape",
                found=tuple(shape),
            )
        modes = kronecker_modes(shape)
        if factors is not None:
            if len(factors) != len(modes):
                raise MetasymError(
                    f"expected {len(modes)} Kronecker factors for a weight of shape {tuple(shape)}, "
                    f"found {len(factors)}",
                    about="factors",
                    found=len(factors),
                )
            given = [
                checked_matrix(f, f"factor {i}", rows=n)
                for i, (f, n) in enumerate(zip(factors, modes, strict=True))
            ]
            if len({f.dtype for f in given}) > 1:
                raise MetasymError(
                    f"expected factors of one type, found {', '.join(str(f.dtype) for f in given)}",
                    about="factors",
                    found=tuple(str(f.dtype) for f in given),
                )
            columns = [f.shape[1] for f in given]
            if filter_shape is not None and list(filter_shape) != columns:
                want, found = tuple(filter_shape), tuple(columns)
                raise MetasymError(
                    f"expected factors with columns {want}, found {found}", about="factors", found=found
                )
            start = [f.detach().clone().to(dtype=dtype, device=device) for f in given]
        else:
            _check_std(std)
            columns = list(modes if filter_shape is None else _positive(filter_shape, "filter shape"))
            if len(columns) != len(modes):
                raise MetasymError(
                    f"expected a filter shape of {len(modes)} numbers, one for each of the modes "
                    f"{modes} of the weight, found {tuple(columns)}",
                    about="filter shape",
                    found=tuple(columns),
                )
            start = [
                _start_factor(n, k, std, generator, dtype).to(device)
                for n, k in zip(modes, columns, strict=True)
            ]
        super().__init__(shape, columns)
        self._names = [f"U{i + 1}" for i in range(len(modes))]
        for name, factor in zip(self._names, start, strict=True):
            self._store(name, factor, learnable)
        self._order, self._build = _cheapest_order(modes, columns)

    @property
    def factors(self) -> list[Tensor]:
        """``[U_out, U_in]`` of a matrix, ``[U_out, U_in, U_space]`` of a convolution weight."""
        return [getattr(self, name) for name in self._names]

    def forward(self, v: Tensor) -> Tensor:
        """``V [*filter_shape] -> W [*weight_shape]``."""
        self._check_filter(v)
        factors = self.factors
        for mode in self._order:
            v = mode_product(v, factors[mode], mode)
        return v.reshape(self.weight_shape)

    @torch.no_grad()
    def right_inverse(self, W: Tensor) -> Tensor:
        """The pseudo-inverse of a Kronecker product is that of its factors."""
        self._check_weight(W)
        v = W.detach().reshape(kronecker_modes(self.weight_shape))
        for mode, factor in enumerate(self.factors):
            if not _is_identity(factor):
                inverse = torch.linalg.pinv(factor.detach().cpu().double()).to(W)
                v = mode_product(v, inverse, mode)
        return v.clone()

    def matrix(self) -> Tensor:
        """The Kronecker product of the factors."""
        product = self.factors[0]
        for factor in self.factors[1:]:
            product = torch.kron(product, factor)
        return product

    def cost(self) -> Cost:
        """The factors' entries, and the multiply-adds of the cheapest order of mode products."""
        stored = sum(f.numel() for f in self.factors)
        size = self.factors[0].element_size()
        return Cost(math.prod(self.weight_shape), stored, math.prod(self.filter_shape), self._build, size)


def kronecker_modes(weight_shape: Sequence[int]) -> list[int]:
    """``[m, n]`` of a matrix, ``[C_out, C_in, prod(kernel)]`` of a convolution weight."""
    head = list(weight_shape[:2])
    return head if len(weight_shape) == 2 else [*head, math.prod(weight_shape[2:])]


def mode_product(T: Tensor, U: Tensor, mode: int) -> Tensor:
    """Multiply the tensor T ``[..., k, ...]`` along ``mode`` by U ``[n, k]``: ``[..., n, ...]``."""
    before, after = T.shape[:mode], T.shape[mode + 1 :]
    if not after:
        return T @ U.T  # the last mode: one product of large matrices instead of many thin ones
    product = U @ T.reshape(math.prod(before), T.shape[mode], math.prod(after))
    return product.reshape(*before, U.shape[0], *after)


def checked_matrix(
    value: Tensor, name: str, *, rows: int | None = None, columns: int | None = None
) -> Tensor:
    """``value`` itself if it is a finite floating-point matrix of the expected size, else an error."""
    if not isinstance(value, Tensor):
        raise MetasymError(
            f"expected {name} to be a torch.Tensor, found {type(value).__name__}",
            about=name,
            found=type(value).__name__,
        )
    want = f"[{'rows' if rows is None else rows}, {'k' if columns is None else columns}]"
    fits = (
        value.ndim == 2
        and value.shape[1] >= 1
        and (rows is None or value.shape[0] == rows)
        and (columns is None or value.shape[1] == columns)
    )
    if not fits:
        raise MetasymError(
            f"expected {name} of shape {want} with k >= 1, found {list(value.shape)}",
            about=name,
            found=tuple(value.shape),
        )
    if not value.is_floating_point():
        raise MetasymError(
            f"expected {name} of a floating-point type, found {value.dtype}", about=name, found=value.dtype
        )
    bad = int((~torch.isfinite(value)).sum())
    if bad:
        raise MetasymError(
            f"expected finite entries in {name}, found {bad} that are NaN or infinite", about=name, found=bad
        )
    return value


def _positive(sizes: Sequence[int], name: str) -> torch.Size:
    try:
        found = [operator.index(size) for size in sizes]  # numpy's whole numbers too
    except TypeError:
        raise MetasymError(
            f"expected a {name} of whole numbers >= 1, found {sizes!r}", about=name, found=sizes
        ) from None
    if not found or any(size < 1 for size in found):
        shown = found[0] if len(found) == 1 else tuple(found)
        raise MetasymError(f"expected a {name} of whole numbers >= 1, found {shown}", about=name, found=shown)
    return torch.Size(found)


def _check_std(std: float) -> None:
    if not isinstance(std, int | float) or not 0 <= std < math.inf:
        raise MetasymError(f"expected a standard deviation >= 0, found {std!r}", about="std", found=std)


def _is_identity(U: Tensor) -> bool:
    return U.shape[0] == U.shape[1] and torch.equal(U, torch.eye(U.shape[0], dtype=U.dtype, device=U.device))


def _start_factor(
    n: int, k: int, std: float, generator: torch.Generator | None, dtype: torch.dtype | None
) -> Tensor:
    if n == k:
        return torch.eye(n, dtype=dtype)
    return torch.eye(n, k, dtype=dtype) + std * torch.randn(n, k, generator=generator, dtype=dtype)


def _cheapest_order(modes: Sequence[int], columns: Sequence[int]) -> tuple[list[int], int]:
    """The order of mode products with the fewest multiply-adds, and their number."""

    def multiply_adds(order: Sequence[int]) -> int:
        sizes, total = list(columns), 0
        for mode in order:
            total += math.prod(sizes) * modes[mode]
            sizes[mode] = modes[mode]
        return total

    orders = sorted(itertools.permutations(range(len(modes))))
    best = min(orders, key=multiply_adds)
    return list(best), multiply_adds(best)
