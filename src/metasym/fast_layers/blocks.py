"""Zeros: blocks that no weight connects, each multiplied by itself, and rows with few entries, gathered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from metasym.fast_layers.compiled_layer import StructuredLayer
from metasym.fast_layers.pricing import (
    BLOCK,
    PASS,
    PICKED,
    PRODUCT,
    READ,
    SMALL,
    Candidate,
    Work,
    build_work,
    gather_work,
)
from metasym.fast_layers.relabelling import Relabelling
from metasym.fast_layers.sharing import Classes, Expansion, Index, Sharing


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of one shape."""

    outputs: Index
    """``[blocks, rows]``."""
    inputs: Index
    """``[blocks, columns]``."""
    classes: Classes
    """``[blocks, rows, columns]``, or ``[1, rows, columns]`` where all blocks have the same weights."""

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self.outputs)


class BlockDiagonal(StructuredLayer):
    """Blocks of one or more shapes: a batched product of each shape, a plain one where all have the same weights."""

    def __init__(
        self,
        filter: Tensor,
        bias: Tensor | None,
        before: Relabelling,
        after: Relabelling,
        groups: list[Blocks],
    ) -> None:
        super().__init__(filter, bias, before, after)
        self.counts = [g.count for g in groups]
        self.widths = [g.inputs.shape[1] for g in groups]
        self.expansions = nn.ModuleList(Expansion(g.classes, len(filter)) for g in groups)

    def prepared(self) -> list[Tensor]:
        """The weights of the blocks, by shape."""
        if len(self.widths) == 1 and self.expansions[0].index is None:
            return [self.expansions[0](self.filter)]  # the filter itself in another shape
        return self.made(lambda filter: [expansion(filter) for expansion in self.expansions])

    def product(self, x: Tensor) -> Tensor:
        """``[examples, live inputs, block by block] -> [examples, live outputs, block by block]``."""
        found, start = [], 0
        for count, width, weight in zip(self.counts, self.widths, self.prepared(), strict=True):
            stop = start + count * width
            part = x if len(self.counts) == 1 else x[:, start:stop]
            part = part.reshape(-1, count, width)
            if len(weight) == 1:
                found.append((part @ weight[0].mT).flatten(1))
            else:
                found.append(torch.bmm(part.transpose(0, 1), weight.mT).transpose(0, 1).flatten(1))
            start = stop
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)


class Gathered(StructuredLayer):
    """Few entries in every row: the inputs of each are gathered, weighed and summed."""

    columns: Tensor

    def __init__(
        self, filter: Tensor, bias: Tensor | None, inputs: int, columns: Index, classes: Classes
    ) -> None:
        m, self.width = columns.shape
        super().__init__(filter, bias, Relabelling(np.arange(inputs), inputs), Relabelling(np.arange(m), m))
        self.register_buffer("columns", torch.from_numpy(columns.ravel()), persistent=False)
        self.expansion = Expansion(classes, len(filter))

    def product(self, x: Tensor) -> Tensor:
        """``[examples, n] -> [examples, m]``."""
        entries = x.index_select(1, self.columns).reshape(-1, self.out_features, self.width)
        found: Tensor = (entries * self.prepared()).sum(-1)
        return found

    def prepared(self) -> Tensor:
        """The weights of the entries ``[m, entries]``."""
        found: Tensor = self.made(self.expansion)
        return found


def find_blocks(sharing: Sharing) -> list[Candidate]:
    """Blocks that no weight connects."""
    m, n = sharing.shape
    groups = components(sharing)
    if not groups or (len(groups) == 1 and groups[0].count == 1 and groups[0].classes.size == m * n):
        return []
    if len(groups) > 8:
        return []
    outputs, inputs = (
        np.concatenate([getattr(g, side).ravel() for g in groups]) for side in ("outputs", "inputs")
    )
    back = np.full(m, -1)
    back[outputs] = np.arange(len(outputs))

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        return BlockDiagonal(filter, bias, Relabelling(inputs, n), Relabelling(back, len(outputs)), groups)

    work = Work(0)
    for g in groups:
        entries = g.outputs.size * g.inputs.shape[1]
        tied = g.classes.shape[0] < g.count
        moved = PASS * (g.outputs.size + g.inputs.size)
        once = READ * entries + (0.0 if tied else BLOCK * g.count)
        calls = 2 if tied else 4
        work += Work(calls, once, SMALL * PRODUCT * entries + moved, entries).trained(3 * calls, 3.0)
        free = g.classes.size == sharing.count and np.array_equal(
            g.classes.ravel(), np.arange(1, g.classes.size + 1)
        )
        work += build_work(g.classes.size, needed=not free)
    work += Work(2, trained_calls=4) if len(groups) > 1 else Work(0)
    gathers = [not np.array_equal(inputs, np.arange(n)), not np.array_equal(back, np.arange(m))]
    work += gather_work(n, needed=gathers[0]) + gather_work(m, needed=gathers[1])
    same = any(g.classes.shape[0] < g.count for g in groups)
    shapes = ", ".join(f"{g.count} of {g.outputs.shape[1]} x {g.inputs.shape[1]}" for g in groups)
    words = f"{'equal ' if same else ''}blocks: {shapes}{', relabelled' if any(gathers) else ''}"
    return [Candidate("blocks", words, work, build)]


def components(sharing: Sharing) -> list[Blocks]:
    """The blocks, by shape; rows and columns of zeros are in none."""
    m, n = sharing.shape
    rows, columns = np.nonzero(sharing.classes)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, m + columns)), shape=(m + n, m + n))
    labels = connected_components(graph, directed=False)[1]
    live = np.unique(labels[rows])
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], live)
    stops = np.searchsorted(labels[order], live, side="right")
    shapes: dict[tuple[int, int], list[tuple[Index, Index]]] = {}
    for start, stop in zip(starts, stops, strict=True):
        members = order[start:stop]
        outs, ins = members[members < m], members[members >= m] - m
        shapes.setdefault((len(outs), len(ins)), []).append((outs, ins))
    return [_aligned(sharing, members) for members in shapes.values()]


def _aligned(sharing: Sharing, members: list[tuple[Index, Index]]) -> Blocks:
    """Blocks of one shape, relabelled so that they are equal where they can be."""
    outs, ins = (np.stack([member[side] for member in members]) for side in (0, 1))
    classes = sharing.classes[outs[:, :, None], ins[:, None, :]]
    if len(members) > 1:
        if (classes == classes[0]).all():
            return Blocks(outs, ins, classes[:1])
        flat = classes.reshape(len(members), -1)
        order = np.argsort(flat, axis=1, kind="stable")
        values = np.take_along_axis(flat, order, axis=1)
        if (values == values[0]).all() and (np.diff(values[0]) > 0).all():
            # Every class once in every block: where the first block has it, the others shall have it too.
            width = ins.shape[1]
            place = order[:, np.argsort(order[0])]
            row, column = place // width, place % width
            grid_rows = row.reshape(classes.shape)[:, :, 0]
            grid_columns = column.reshape(classes.shape)[:, 0, :]
            outs2 = np.take_along_axis(outs, grid_rows, axis=1)
            ins2 = np.take_along_axis(ins, grid_columns, axis=1)
            moved = sharing.classes[outs2[:, :, None], ins2[:, None, :]]
            if (moved == classes[0]).all():
                return Blocks(outs2, ins2, classes[:1])
    return Blocks(outs, ins, classes)


def find_sparse(sharing: Sharing) -> list[Candidate]:
    """Rows with few entries that are not zero."""
    m, n = sharing.shape
    live = sharing.classes != 0
    width = int(live.sum(1).max())
    if width == 0 or 8 * width > n:
        return []
    order = np.argsort(~live, axis=1, kind="stable")[:, :width]
    classes = np.take_along_axis(sharing.classes, order, axis=1)
    columns = np.where(classes != 0, order, 0)

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        return Gathered(filter, bias, n, columns, classes)

    entries = m * width
    work = Work(5, 0.0, PICKED * entries, entries).trained(10, 4.0) + build_work(entries)
    return [Candidate("sparse", f"sparse: at most {width} of {n} weights a row", work, build)]
