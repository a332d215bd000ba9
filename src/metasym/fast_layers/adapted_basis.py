"""Any small group: the block-diagonal form of its equivariant maps in a symmetry-adapted basis.

Both sides are turned orbit by orbit, so that the turning is cheap where orbits are short. The basis comes from the
group algebra. A random symmetric element ``A = sum_g c_g pi(g)`` acts on inputs and on outputs; an equivariant weight
commutes with it, and maps each eigenspace on the inputs to the eigenspace of the same eigenvalue on the outputs. An
irreducible representation of dimension d has d eigenvalues; another random element carries the basis of the first
eigenspace to the others, and then all d blocks are equal. Some eigenspaces have a complex structure (those of
rotations by thirds, say), which an antisymmetric element shows: bases are chosen along it, and entries come in pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from metasym.fast_layers.pricing import PASS, PRODUCT, READ, SMALL, Candidate, Work, gather_work
from metasym.fast_layers.relabelling import Relabelling
from metasym.fast_layers.sharing import Index, Sharing
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation

_ORDER = 64
"""Elements of a group that is tried."""
_SAME = 1e-8
Matrix = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Side:
    """Inputs or outputs: orbits by type; orbits of one type are moved alike, point by point."""

    orbits: tuple[Index, ...]
    """For each type ``[points, orbits]``."""
    actions: tuple[Index, ...]
    """For each type ``[elements, points]``: where an element takes the points of an orbit."""


Bases = tuple[Matrix, ...]
"""For each type of orbit ``[points, copies, 1 or 2, multiplicity]``, orthonormal."""


@dataclass(frozen=True, eq=False)
class Irrep:
    """One irreducible representation, as it occurs in the outputs and in the inputs."""

    outputs: Bases
    inputs: Bases

    @property
    def copies(self) -> int:
        """Its dimension over its own numbers: how often its block comes."""
        return int(self.inputs[0].shape[1])

    @property
    def parts(self) -> int:
        """2 where its blocks have a complex structure, else 1."""
        return int(self.inputs[0].shape[2])


class AdaptedBasis(nn.Module):
    """``W = Q_out B Q_in^T`` with a block-diagonal B: its different blocks are all that is stored."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, sides: tuple[Side, Side], irreps: Sequence[Irrep]
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        outs, ins = (np.concatenate([o.ravel() for o in side.orbits]) for side in sides)
        self.before = Relabelling(ins, self.in_features)
        self.after = Relabelling(np.argsort(outs), self.out_features)
        self.kinds = [(irrep.copies, irrep.parts) for irrep in irreps]
        self.shapes = tuple([o.shape for o in side.orbits] for side in sides)
        """Points and orbits of each type, of outputs and of inputs."""
        self.multiplicities = tuple(
            [[b.shape[3] for b in bases] for bases in of_side]
            for of_side in ([i.outputs for i in irreps], [i.inputs for i in irreps])
        )
        for name, side, bases in (
            ("output", sides[0], [i.outputs for i in irreps]),
            ("input", sides[1], [i.inputs for i in irreps]),
        ):
            for t in range(len(side.orbits)):
                columns = np.concatenate([b[t].reshape(len(b[t]), -1) for b in bases], axis=1)
                turn = columns if name == "output" else columns.T
                self.register_buffer(
                    f"{name}_{t}", torch.from_numpy(turn.copy()).to(weight), persistent=False
                )
        W = weight.detach().double().cpu().numpy()
        self.blocks = nn.ParameterList(
            nn.Parameter(torch.from_numpy(_block(W, sides, irrep)).to(weight)) for irrep in irreps
        )
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., inputs] -> y [..., outputs]``."""
        flat = self.before(x.reshape(-1, self.in_features))
        turned, start = [], 0
        for t, (points, orbits) in enumerate(self.shapes[1]):
            part = flat[:, start : start + points * orbits].reshape(-1, points, orbits)
            turned.append(self.get_buffer(f"input_{t}") @ part)
            start += points * orbits
        pieces: list[list[Tensor]] = [[] for _ in self.shapes[0]]
        rows = [0] * len(turned)
        for number, ((copies, parts), block) in enumerate(zip(self.kinds, self.blocks, strict=True)):
            found = []
            for t, r in enumerate(self.multiplicities[1][number]):
                size = copies * parts * r
                if r:
                    part = turned[t][:, rows[t] : rows[t] + size]
                    found.append(part.reshape(-1, copies, parts, r * self.shapes[1][t][1]))
                rows[t] += size
            height = parts * block.shape[1]
            if found:
                inside = found[0] if len(found) == 1 else torch.cat(found, dim=3)
                outside = inside.flatten(2) @ _whole(block).mT
            else:  # a representation of the outputs alone: nothing reaches it
                outside = flat.new_zeros(flat.shape[0], copies, height)
            outside = outside.reshape(-1, copies, parts, block.shape[1]) if height else outside
            begin = 0
            for t, r in enumerate(self.multiplicities[0][number]):
                orbits = self.shapes[0][t][1]
                if r:
                    part = outside[..., begin : begin + r * orbits]
                    pieces[t].append(part.reshape(-1, copies * parts * r, orbits))
                begin += r * orbits
        back = [
            (self.get_buffer(f"output_{t}") @ torch.cat(rows_of_type, dim=1)).flatten(1)
            for t, rows_of_type in enumerate(pieces)
        ]
        y: Tensor = self.after(back[0] if len(back) == 1 else torch.cat(back, dim=1))
        if self.bias is not None:
            y = y + self.bias
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Sizes and blocks."""
        blocks = ", ".join(
            f"{copies} x ({parts * b.shape[1]} x {parts * b.shape[2]})"
            for (copies, parts), b in zip(self.kinds, self.blocks, strict=True)
        )
        return f"{self.in_features} -> {self.out_features}, blocks {blocks}"


def _whole(block: Tensor) -> Tensor:
    """A block ``[parts, rows, columns]`` as a matrix; of two parts, as complex numbers multiply."""
    if len(block) == 1:
        return block[0]
    a, b = block.unbind()
    return torch.cat([torch.cat([a, -b], dim=1), torch.cat([b, a], dim=1)])


def _block(W: Matrix, sides: tuple[Side, Side], irrep: Irrep) -> Matrix:
    """The block of the first copy ``[parts, rows, columns]``: what it makes of the first vectors of its pairs."""
    out = np.concatenate(
        [_spread(b, o, len(W)) for b, o in zip(irrep.outputs, sides[0].orbits, strict=True)], axis=2
    )
    inp = np.concatenate(
        [_spread(b, o, W.shape[1]) for b, o in zip(irrep.inputs, sides[1].orbits, strict=True)], axis=2
    )
    image = W @ inp[:, 0]
    return np.stack([out[:, part].T @ image for part in range(out.shape[1])])


def _spread(basis: Matrix, orbits: Index, size: int) -> Matrix:
    """``[size, parts, multiplicity * orbits]``: the vectors of the first copy on all points."""
    found = np.zeros((size, *basis.shape[2:], orbits.shape[1]))
    for o in range(orbits.shape[1]):
        found[orbits[:, o], :, :, o] = basis[:, 0]
    return found.reshape(size, basis.shape[2], -1)


def find_adapted(sharing: Sharing, symmetries: Sequence[SignedPermutation]) -> list[Candidate]:
    """The form in a symmetry-adapted basis of a small group of permutations that keeps the pattern."""
    m, n = sharing.shape
    elements = _elements(symmetries, m) if len(symmetries) and not sharing.signed else None
    if elements is None or len(elements) < 2:
        return []
    sides = _side(elements[:, :m]), _side(elements[:, m:] - m)
    irreps = _irreps(sides, elements)
    if irreps is None:
        return []
    shapes = [
        tuple(
            sum(b.shape[3] * o.shape[1] for b, o in zip(bases, side.orbits, strict=True))
            for bases, side in zip((i.outputs, i.inputs), sides, strict=True)
        )
        for i in irreps
    ]
    kept = list(zip(irreps, shapes, strict=True))
    if sum(i.parts * out * inp for i, (out, inp) in kept) != sharing.count:
        return []

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        return AdaptedBasis(sharing.weight(filter), bias, sides, irreps)

    products = sum(i.copies * i.parts**2 * out * inp for i, (out, inp) in kept)
    turning = sum(o.shape[0] ** 2 * o.shape[1] for side in sides for o in side.orbits)
    calls = 4 + 3 * sum(len(side.orbits) for side in sides) + 4 * len(irreps)
    work = Work(
        calls,
        READ * products,
        PRODUCT * (1.2 * products + 2 * SMALL * turning) + 4 * PASS * (m + n),
        products + turning,
    ).trained(2 * calls, 3.5)
    work += gather_work(n) + gather_work(m)
    sizes: Counter[tuple[int, int]] = Counter()
    for i, (out, inp) in kept:
        if out and inp:
            sizes[i.parts * out, i.parts * inp] += i.copies
    blocks = ", ".join(f"{count} of {rows} x {columns}" for (rows, columns), count in sizes.items())
    words = f"symmetry-adapted basis of a group of order {len(elements)}: blocks {blocks}"
    return [Candidate("symmetry-adapted basis", words, work, build)]


def _elements(symmetries: Sequence[SignedPermutation], m: int) -> Index | None:
    """All elements ``[order, m + n]`` of the group that permutations of both sides generate, identity first."""
    group = SignedGroup(tuple(symmetries), symmetries[0].shape)
    if not group.has_at_most(_ORDER):
        return None
    return np.array([[*g.outputs, *(j + m for j in g.inputs)] for g in group.elements])


def _side(elements: Index) -> Side:
    """The orbits of permutations ``[order, points]``, each relabelled so that orbits of one type are moved alike."""
    left = np.ones(elements.shape[1], dtype=bool)
    types: dict[bytes, list[Index]] = {}
    actions: dict[bytes, Index] = {}
    while left.any():
        orbit = np.unique(elements[:, np.flatnonzero(left)[0]])
        left[orbit] = False
        ordered = []
        for base in orbit:
            images = elements[:, base]
            _, first, inverse = np.unique(images, return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            rank[np.argsort(first)] = np.arange(len(first))
            ordered.append((rank[inverse.ravel()].tobytes(), images[np.sort(first)]))
        key, points = next((item for item in ordered if item[0] in types), ordered[0])
        types.setdefault(key, []).append(points)
        if key not in actions:
            place = np.full(elements.shape[1], -1)
            place[points] = np.arange(len(points))
            actions[key] = place[elements[:, points]]
    return Side(tuple(np.stack(found, axis=1) for found in types.values()), tuple(actions.values()))


def _irreps(sides: tuple[Side, Side], elements: Index) -> list[Irrep] | None:
    """The irreducible representations in either side, with their bases; None where numbers are too close to tell."""
    order = len(elements)
    index = {g.tobytes(): k for k, g in enumerate(elements)}
    inverse = np.array([index[np.argsort(g).tobytes()] for g in elements])
    draw = np.random.Generator(np.random.PCG64(0))
    raw, carry = draw.standard_normal(order), draw.standard_normal(order)
    actions = [a for side in sides for a in side.actions]
    symmetric = [_algebra(a, raw + raw[inverse]) for a in actions]
    turning = [_algebra(a, raw - raw[inverse]) for a in actions]
    carrying = [_algebra(a, carry) for a in actions]
    values, vectors = zip(*(np.linalg.eigh(A) for A in symmetric), strict=True)
    every = np.sort(np.concatenate(values))
    starts = np.concatenate([[True], np.diff(every) > _SAME * max(1.0, float(np.abs(every).max()))])
    levels = every[starts]
    spaces: list[list[Matrix]] = []
    for k in range(len(levels)):
        top = levels[k + 1] if k + 1 < len(levels) else np.inf
        spaces.append(
            [V[:, (v >= levels[k] - 1e-12) & (v < top - 1e-12)] for v, V in zip(values, vectors, strict=True)]
        )
    groups = _linked(spaces, carrying)
    found = []
    for group in groups:
        bases = _first_basis(spaces[group[0]], turning)
        if bases is None:
            return None
        copies = [bases]
        for other in group[1:]:
            moved = _carried(bases, spaces[other], carrying)
            if moved is None:
                return None
            copies.append(moved)
        whole = [np.stack([copy[t] for copy in copies], axis=1) for t in range(len(actions))]
        split = len(sides[0].orbits)
        found.append(Irrep(tuple(whole[:split]), tuple(whole[split:])))
    for t, action in enumerate(actions):
        columns = [(irrep.outputs + irrep.inputs)[t].reshape(action.shape[1], -1) for irrep in found]
        basis = np.concatenate(columns, axis=1)
        if basis.shape[0] != basis.shape[1] or np.abs(basis.T @ basis - np.eye(len(basis))).max() > 1e-9:
            return None
    return found


def _algebra(action: Index, weights: Matrix) -> Matrix:
    """``sum_g weights[g] pi(g)`` on the points of an orbit."""
    points = action.shape[1]
    found = np.zeros((points, points))
    for g, weight in zip(action, weights, strict=True):
        found[g, np.arange(points)] += weight
    return found


def _linked(spaces: list[list[Matrix]], carrying: list[Matrix]) -> list[list[int]]:
    """Eigenspaces of one representation: those that an element of the algebra carries into each other."""
    count = len(spaces)
    label = list(range(count))
    for a in range(count):
        for b in range(a + 1, count):
            size = max(
                (
                    float(np.abs(spaces[b][t].T @ B @ spaces[a][t]).max(initial=0))
                    for t, B in enumerate(carrying)
                ),
                default=0.0,
            )
            if size > 1e-6:
                label = [label[a] if one == label[b] else one for one in label]
    return [[k for k in range(count) if label[k] == first] for first in dict.fromkeys(label)]


def _first_basis(space: list[Matrix], turning: list[Matrix]) -> list[Matrix] | None:
    """For each type ``[points, 1 or 2, multiplicity]``: along the complex structure where there is one."""
    inner = [V.T @ K @ V for V, K in zip(space, turning, strict=True)]
    present = [J for J in inner if J.size]
    scale = max(float(np.linalg.norm(J) / np.sqrt(len(J))) for J in present)
    if scale < 1e-6:
        return [V[:, None, :] for V in space]
    found: list[Matrix] = []
    for V, J in zip(space, inner, strict=True):
        if not V.size:
            found.append(np.zeros((len(V), 2, 0)))
            continue
        J = J / scale
        if np.abs(J @ J + np.eye(len(J))).max() > 1e-6:
            return None
        chosen: list[Matrix] = []
        for e in np.eye(len(J)):
            for c in chosen:
                e = e - c * (c @ e) - (J @ c) * ((J @ c) @ e)
            if np.linalg.norm(e) > 1e-3:
                chosen.append(e / np.linalg.norm(e))
            if 2 * len(chosen) == len(J):
                break
        first = np.stack(chosen, axis=1)
        found.append(np.stack([V @ first, V @ (J @ first)], axis=1))
    return found


def _carried(bases: list[Matrix], space: list[Matrix], carrying: list[Matrix]) -> list[Matrix] | None:
    """The basis of another eigenspace that an element of the algebra makes of the first one's."""
    moved = [
        np.einsum("ij,jpr->ipr", V @ V.T @ B, basis)
        for basis, V, B in zip(bases, space, carrying, strict=True)
    ]
    scales = [float(np.linalg.norm(one[:, 0, 0])) for one in moved if one.shape[2]]
    if min(scales, default=0.0) < 1e-6 or max(scales) - min(scales) > 1e-6 * max(scales):
        return None
    return [one / scales[0] for one in moved]
