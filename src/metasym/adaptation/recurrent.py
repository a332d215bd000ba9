"""LSTM, GRU and RNN layers written out, time step by time step, in operations that vmap can map over tasks.

Torch computes these layers in kernels that vmap cannot batch, so tasks would have to go one after the other. It
takes their second derivatives step by step anyway, in some dozen small operations for each time step, and nearly
all of the time goes into starting these operations. Written out, the same operations serve all tasks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

State = tuple[Tensor, ...]
"""h ``[batch, hidden]``; for an LSTM h ``[batch, projection]`` and c ``[batch, hidden]``."""
Cell = Callable[[Tensor, State, Sequence[Tensor], bool], State]
"""``cell(inputs' part, state, weights, biases) -> state``, with the inputs multiplied by their weights already."""


def _lstm_cell(x: Tensor, state: State, weights: Sequence[Tensor], biases: bool) -> State:
    h, c = state
    i, f, g, o = (x + F.linear(h, weights[1], weights[3] if biases else None)).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    projection = weights[4:] if biases else weights[2:]
    return (F.linear(h, projection[0]) if projection else h), c


def _gru_cell(x: Tensor, state: State, weights: Sequence[Tensor], biases: bool) -> State:
    (h,) = state
    x_r, x_z, x_n = x.chunk(3, dim=-1)
    h_r, h_z, h_n = F.linear(h, weights[1], weights[3] if biases else None).chunk(3, dim=-1)
    z = (x_z + h_z).sigmoid()
    return ((1 - z) * (x_n + (x_r + h_r).sigmoid() * h_n).tanh() + z * h,)


def _rnn_cell(act: Callable[[Tensor], Tensor]) -> Cell:
    def cell(x: Tensor, state: State, weights: Sequence[Tensor], biases: bool) -> State:
        return (act(x + F.linear(state[0], weights[1], weights[3] if biases else None)),)

    return cell


def _layers(cell: Cell, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """``kernel``, a function of torch over all layers and time steps, written out with ``cell``."""

    def run(
        x: Tensor,
        start: Tensor | Sequence[Tensor],
        weights: Any,
        biases: Any = None,
        layers: int = 1,
        dropout: float = 0.0,
        train: bool = False,
        bidirectional: bool = False,
        batch_first: Any = None,
    ) -> tuple[Tensor, ...]:
        if not isinstance(biases, bool) or not isinstance(batch_first, bool):  # packed sequences
            return kernel(x, start, weights, biases, layers, dropout, train, bidirectional, batch_first)  # type: ignore[no-any-return]
        starts = [start] if isinstance(start, Tensor) else list(start)
        ways = 2 if bidirectional else 1
        each = len(weights) // (layers * ways)
        sequence = x.transpose(0, 1) if batch_first else x
        ends: list[State] = []
        for layer in range(layers):
            if layer and dropout and train:
                sequence = F.dropout(sequence, dropout)
            outputs = []
            for way in range(ways):
                place = layer * ways + way
                own = weights[place * each : (place + 1) * each]
                steps = F.linear(sequence, own[0], own[2] if biases else None).unbind(0)
                state, seen = tuple(s[place] for s in starts), []
                for step in reversed(steps) if way else steps:
                    state = cell(step, state, own, biases)
                    seen.append(state[0])
                outputs.append(torch.stack(seen[::-1] if way else seen))
                ends.append(state)
            sequence = torch.cat(outputs, dim=-1) if bidirectional else outputs[0]
        output = sequence.transpose(0, 1) if batch_first else sequence
        return (output, *(torch.stack(parts) for parts in zip(*ends, strict=True)))

    return run


def _one_step(cell: Cell) -> Callable[..., Any]:
    """A function of torch for one time step, as ``nn.LSTMCell`` and its like call it, written out with ``cell``."""

    def run(
        x: Tensor,
        state: Tensor | Sequence[Tensor],
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        before = (state,) if isinstance(state, Tensor) else tuple(state)
        biases = () if b_ih is None or b_hh is None else (b_ih, b_hh)
        after = cell(F.linear(x, w_ih, b_ih), before, (w_ih, w_hh, *biases), bool(biases))
        return after[0] if isinstance(state, Tensor) else after

    return run


WRITTEN_OUT: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.lstm: _layers(_lstm_cell, torch.lstm),
    torch.gru: _layers(_gru_cell, torch.gru),
    torch.rnn_tanh: _layers(_rnn_cell(torch.tanh), torch.rnn_tanh),
    torch.rnn_relu: _layers(_rnn_cell(torch.relu), torch.rnn_relu),
    torch.lstm_cell: _one_step(_lstm_cell),
    torch.gru_cell: _one_step(_gru_cell),
    torch.rnn_tanh_cell: _one_step(_rnn_cell(torch.tanh)),
    torch.rnn_relu_cell: _one_step(_rnn_cell(torch.relu)),
}
"""Torch's functions for recurrent layers, each with its written-out replacement."""
