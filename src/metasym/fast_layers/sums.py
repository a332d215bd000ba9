"""Few classes: sums of inputs computed once, then combined.

The entries of a class, or of several classes together, may be *cliques*: sets of outputs each tied to the same set of
inputs, no two sets with a common member. Then their part of the product is a sum over every set of inputs, given to
every output of its set. S_n has two such parts, all pairs and the diagonal; the rows and columns of an exchangeable
matrix have four. A pattern whose classes are combinations of such parts needs as many sums as there are sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from metasym.fast_layers.compiled_layer import StructuredLayer
from metasym.fast_layers.pricing import GATHER, PASS, Candidate, Work
from metasym.fast_layers.relabelling import Relabelling
from metasym.fast_layers.sharing import Index, Sharing

_CLASSES = 64
"""Classes of a pattern that is examined."""
_LOCAL = 6
"""Classes between one kind of outputs and one kind of inputs."""
_TERMS = 64
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cliques:
    """Disjoint sets of outputs and inputs: output i is tied to the inputs of set ``outputs[i]``, -1 for none."""

    outputs: Index
    inputs: Index
    count: int

    @property
    def everything(self) -> bool:
        """Whether there is one set that holds all."""
        return self.count == 1 and bool((self.outputs == 0).all() and (self.inputs == 0).all())

    @property
    def matching(self) -> bool:
        """Whether every output has just one input."""
        sizes = np.bincount(self.inputs[self.inputs >= 0], minlength=self.count)
        return bool((self.outputs >= 0).all() and (sizes == 1).all())

    @property
    def entries(self) -> int:
        """How many entries of an example are examined or written."""
        if self.everything:
            return len(self.inputs) + len(self.outputs)
        return len(self.outputs) + (0 if self.matching else int((self.inputs >= 0).sum()))


@dataclass(frozen=True, eq=False)
class Part:
    """A term of the product: cliques between one kind of outputs and one kind of inputs, and their coefficient."""

    rows: int
    """Which kind of outputs."""
    columns: int
    cliques: Cliques
    coefficients: dict[int, float]
    """The coefficient as a combination of filter entries (numbered from 1)."""


class Sums(StructuredLayer):
    """``y = sum_t a_t E_t x``: each ``E_t x`` adds inputs up over disjoint sets and hands the sums to outputs."""

    combine: Tensor

    def __init__(
        self,
        filter: Tensor,
        bias: Tensor | None,
        before: Relabelling,
        after: Relabelling,
        parts: list[Part],
        rows: list[int],
        columns: list[int],
    ) -> None:
        super().__init__(filter, bias, before, after)
        self.rows, self.columns = rows, columns
        """How many outputs and inputs there are of each kind."""
        combine = torch.zeros(len(parts), len(filter), dtype=filter.dtype)
        for t, part in enumerate(parts):
            for number, value in part.coefficients.items():
                combine[t, number - 1] = value
        self.register_buffer("combine", combine, persistent=False)
        self.terms = [tuple(part.coefficients.items()) for part in parts]
        self.places = [(part.rows, part.columns) for part in parts]
        self.members = nn.ModuleList(_Expanded(part.cliques) for part in parts)
        alone = [part.cliques.matching for part in parts]
        together = [part.cliques.everything for part in parts]
        self.simple: tuple[int, int] | None = None
        """Where the sum of all inputs and one input for each output are all there is: which part is which."""
        self.in_order = False
        """Whether that one input is the one in the output's own place."""
        if len(rows) == len(columns) == 1 and len(parts) == 2 and any(alone) and any(together):
            self.simple = alone.index(True), together.index(True)
            own = _Expanded(parts[self.simple[0]].cliques).gather
            self.in_order = isinstance(own, Relabelling) and own.neutral
        self.quick: tuple[float, ...] | None = None
        """S_n as it stands: how the entry's own coefficient and the sum's follow from the two of the filter."""
        if self.in_order and self.simple is not None and combine.shape[1] == 2 and bias is None:
            self.quick = tuple(combine[list(self.simple)].flatten().tolist()) if all(self.plain) else None
        self._column: tuple[list[float], Tensor] | None = None
        """Filter entries, and the sum's coefficient in a column: one product sums and weighs."""

    def prepared(self) -> Sequence[Any]:
        """The coefficient of each part: plain numbers while the filter is not trained."""
        if self._frozen is None and self.at_rest():
            numbers = self.filter.tolist()
            return [sum([a * numbers[c - 1] for c, a in terms]) for terms in self.terms]
        return self.made(lambda filter: torch.mv(self.combine.to(filter.dtype), filter).unbind())

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., inputs] -> y [..., outputs]``."""
        quick = self.quick
        filter = self._parameters["filter"]
        # What at_rest() asks, written out: beside so little work a call or two more would be felt.
        if (
            quick is None
            or x.ndim != 2
            or type(filter) is not nn.Parameter
            or not filter.is_cpu
            or (filter.requires_grad and torch.is_grad_enabled())
            or torch.compiler.is_compiling()
        ):
            return super().forward(x)
        numbers = filter.tolist()
        column = self._column
        if column is None or column[0] != numbers or column[1].dtype != x.dtype:
            coefficient = quick[2] * numbers[0] + quick[3] * numbers[1]
            with torch.inference_mode(False):
                filled = torch.full((self.in_features, 1), coefficient, dtype=x.dtype)
            self._column = column = numbers, filled
        return torch.add(torch.mm(x, column[1]), x, alpha=quick[0] * numbers[0] + quick[1] * numbers[1])

    def product(self, x: Tensor) -> Tensor:
        """``[examples, inputs kind by kind] -> [examples, outputs kind by kind]``."""
        coefficients = self.prepared()
        if self.simple is not None:
            own, common = coefficients[self.simple[0]], coefficients[self.simple[1]]
            entries = x if self.in_order else self.members[self.simple[0]](x)
            total = x.sum(1, keepdim=True)
            if type(own) is float:
                return torch.add(total.mul_(common), entries, alpha=own)
            found: Tensor = entries * own
            found += total * common
            return found
        kinds = [x] if len(self.columns) == 1 else list(x.split(self.columns, dim=1))
        whole: dict[int, Tensor] = {}
        sums: list[Tensor | None] = [None] * len(self.rows)
        for (row, column), a, member in zip(self.places, coefficients, self.members, strict=True):
            if member.everything:
                if column not in whole:
                    whole[column] = kinds[column].sum(1, keepdim=True)
                term = whole[column] * a
            else:
                term = member(kinds[column]) * a
            before = sums[row]
            sums[row] = term if before is None else before + term
        whole_rows = [
            x.new_zeros(x.shape[0], size) if s is None else s.expand(-1, size)
            for s, size in zip(sums, self.rows, strict=True)
        ]
        return whole_rows[0] if len(whole_rows) == 1 else torch.cat(whole_rows, dim=1)


class _Expanded(nn.Module):
    """``E x``: sums over sets of inputs, handed to the outputs of each set."""

    def __init__(self, cliques: Cliques) -> None:
        super().__init__()
        self.everything, self.matching = cliques.everything, cliques.matching
        self.gather: nn.Module = nn.Identity()
        self.scatter: nn.Module = nn.Identity()
        self.width, self.count = 0, cliques.count
        if self.everything:
            return
        n = len(cliques.inputs)
        live = np.flatnonzero(cliques.inputs >= 0)
        order = live[np.argsort(cliques.inputs[live], kind="stable")]
        if self.matching:
            self.gather = Relabelling(order[cliques.outputs], n)
            return
        sizes = np.bincount(cliques.inputs[live], minlength=cliques.count)
        self.width = int(sizes.max())
        padded = np.full((cliques.count, self.width), -1)
        padded[np.arange(self.width)[None, :] < sizes[:, None]] = order
        self.gather = Relabelling(padded.ravel(), n)
        self.scatter = Relabelling(cliques.outputs, cliques.count)

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, inputs] -> [examples, outputs]``."""
        entries: Tensor = self.gather(x)
        if self.matching:
            return entries
        found: Tensor = self.scatter(entries.reshape(-1, self.count, self.width).sum(-1))
        return found


def find_sums(sharing: Sharing) -> list[Candidate]:
    """Patterns that are combinations of cliques."""
    m, n = sharing.shape
    if sharing.count > _CLASSES or sharing.signed:
        return []
    classes = sharing.classes
    rows, columns = _kinds(classes), _kinds(classes.T)
    if len(rows) * len(columns) > _TERMS:
        return []
    draw = np.random.Generator(np.random.PCG64(0))
    parts: list[Part] = []
    for (r, outs), (c, ins) in itertools.product(enumerate(rows), enumerate(columns)):
        found = _parts(classes[np.ix_(outs, ins)], draw)
        if found is None or len(parts) + len(found) > _TERMS:
            return []
        parts += [Part(r, c, cliques, weights) for cliques, weights in found]
    outputs, inputs = np.concatenate(rows), np.concatenate(columns)
    sizes = [len(r) for r in rows], [len(c) for c in columns]
    back = np.argsort(outputs)

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        return Sums(filter, bias, Relabelling(inputs, n), Relabelling(back, m), parts, *sizes)

    entries = sum(part.cliques.entries for part in parts)
    gathered = sum(part.cliques.entries for part in parts if not part.cliques.everything)
    gathers = (not np.array_equal(inputs, np.arange(n))) * n + (not np.array_equal(back, np.arange(m))) * m
    calls = (
        1 + 2 * len(parts) + sum(not part.cliques.everything and not part.cliques.matching for part in parts)
    )
    work = Work(calls, 0.0, 0.5 * PASS * entries, entries + len(parts)).trained(4 + 4 * len(parts), 6.0)
    work += Work(0, 0.0, GATHER * (gathered + gathers)).trained(3 * (gathered + gathers > 0), 8.0)
    many = sum(part.cliques.count for part in parts if not part.cliques.matching)
    words = f"{sharing.count} classes: {many} sums of inputs computed once, {len(parts)} terms combined"
    return [Candidate("sums", words, work, build)]


def _kinds(classes: Index) -> list[Index]:
    """The rows by kind: those with as many entries of every class."""
    m = len(classes)
    top = int(classes.max()) + 1
    counts = np.bincount((np.arange(m)[:, None] * top + classes).ravel(), minlength=m * top).reshape(m, top)
    kinds = np.unique(counts, axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(kinds == k) for k in range(int(kinds.max()) + 1)]


def _parts(classes: Index, draw: np.random.Generator) -> list[tuple[Cliques, dict[int, float]]] | None:
    """Cliques whose combinations give every class of this part of the pattern; None where there are not enough."""
    numbers = np.unique(classes)
    if len(numbers) > _LOCAL:
        return None
    # Sums of large whole numbers, exact in float64: equal sums of a row's inputs are equal sets of them.
    marks = draw.integers(1, 2**36, size=classes.shape[1]).astype(np.float64)
    of_class = np.stack([(classes == c) @ marks for c in numbers])
    counts = np.stack([(classes == c).sum(1) for c in numbers])
    chosen: list[tuple[Cliques, npt.NDArray[np.float64]]] = []
    subsets = [
        np.array(s)
        for size in range(1, len(numbers) + 1)
        for s in itertools.combinations(range(len(numbers)), size)
    ]
    found = []
    for subset in subsets:
        cliques = _cliques(classes, numbers[subset], of_class[subset].sum(0), counts[subset].sum(0))
        if cliques is not None:
            indicator = np.zeros(len(numbers))
            indicator[subset] = 1
            found.append((cliques, indicator))
    for cliques, indicator in sorted(found, key=lambda item: item[0].entries + item[0].count):
        if np.linalg.matrix_rank(np.stack([*(i for _, i in chosen), indicator])) > len(chosen):
            chosen.append((cliques, indicator))
    if len(chosen) < len(numbers):
        return None
    # Values of the classes are sums of the coefficients of the parts that hold them.
    inverse = np.linalg.inv(np.stack([i for _, i in chosen]).T)
    terms = []
    for (cliques, _), row in zip(chosen, inverse, strict=True):
        weights = {
            int(c): float(round(w, 9)) for c, w in zip(numbers, row, strict=True) if c and abs(w) > 1e-9
        }
        if weights:
            terms.append((cliques, weights))
    return terms


def _cliques(classes: Index, numbers: Index, sums: npt.NDArray[np.float64], counts: Index) -> Cliques | None:
    """The entries of these classes as cliques, if they are."""
    live = counts > 0
    _, first, kinds = np.unique(sums[live], return_index=True, return_inverse=True)
    rows = np.flatnonzero(live)[first]
    if int(counts[rows].sum()) > classes.shape[1]:
        return None
    member: Bools = np.isin(classes[rows], numbers)
    if (member.sum(0) > 1).any():
        return None
    outputs = np.full(len(classes), -1)
    outputs[live] = kinds.ravel()
    inputs = np.where(member.any(0), member.argmax(0), -1)
    whole = np.isin(classes, numbers)
    tied = (outputs[:, None] == inputs[None, :]) & (outputs >= 0)[:, None]
    return Cliques(outputs, inputs, len(rows)) if np.array_equal(whole, tied) else None
