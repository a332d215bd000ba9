"""Groups that a user names, such as ``shifts`` or ``rotations:8``, and how they act on a layer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from metasym.groups import Group, equivariant_basis, from_generators, image_rotations, image_rotations_flips
from metasym.groups.bases import orbit_basis
from metasym.groups.generators import TooLargeError
from metasym.groups.signed_permutations import SignedPermutation, cycle_notation
from metasym.storage.plain_files import read_plain
from metasym.types import MetasymError

MOST = 500
"""Groups of up to this many elements are examined element by element, larger ones by their generators."""
_SHOWN = 40
"""Characters of an element's cycles."""

HELP = {
    "shifts": "circular shifts of all inputs and outputs (as many of each)",
    "dihedral": "shifts and reversals",
    "reflection": "the reversal of the order of inputs and of outputs",
    "permutations": "all permutations of inputs, and the same of outputs",
    "grid:HxW": "circular shifts of an H x W grid along both axes",
    "rotations:N": "turns by 360/N degrees: of a convolution's kernels with a permutation of its channels, "
    "or (N = 2, 4) of square images flattened into inputs and outputs",
    "rotations-flips:N": "those and flips",
    "images": "the usual transforms of images: flips, quarter turns, turns by an angle, shifts, scales, and how far "
    "each may go (with --function)",
    "FILE.json": 'generators: {"outputs": [...], "inputs": [...]}, lists of permutations or matrices in pairs',
}


@dataclass(frozen=True)
class Asked:
    """A group by its name on the command line."""

    text: str
    kind: str
    numbers: tuple[int, ...] = ()

    @property
    def spatial(self) -> bool:
        """Whether it acts on images."""
        return self.kind in ("rotations", "rotations-flips")


@dataclass(frozen=True, eq=False)
class Action:
    """A group acting on the outputs and the inputs of a layer: W is equivariant if ``g W = W g`` for every g."""

    name: str
    element_names: tuple[str, ...]
    outputs: Tensor
    """``[elements, m]`` permutations (output i goes to ``outputs[g, i]``) or ``[elements, m, m]`` matrices."""
    inputs: Tensor
    """``[elements, n]`` or ``[elements, n, n]``."""
    basis: Tensor
    """``[m n, d]``, orthonormal columns: the equivariant maps."""
    complete: bool
    """Whether all elements are here; a group too large to list has only its generators."""
    generators: tuple[int, ...]
    """Which of the elements generate the group."""

    def error(self, element: int, U: Tensor) -> float:
        """``|g U - U| / |U|`` for an element g and ``U [m n, k]``."""
        m, n = self.outputs.shape[1], self.inputs.shape[1]
        grid = U.reshape(m, n, -1)
        out, inp = self.outputs[element], self.inputs[element]
        if out.ndim == 1 and inp.ndim == 1:
            moved = torch.empty_like(grid)
            moved[out[:, None], inp[None, :]] = grid
        else:  # W -> pi_out(g) W pi_in(g)^-1
            moved = torch.einsum("ab,bck,cd->adk", out.to(U), grid, torch.linalg.inv(inp).to(U))
        return float(torch.linalg.vector_norm(moved - grid) / torch.linalg.vector_norm(grid))


def parse_group(text: str) -> Asked:
    """What ``--group`` says."""
    kind, _, rest = text.partition(":")
    if text.endswith(".json"):
        return Asked(text, "file")
    if text == "images":
        return Asked(text, "images")
    plain = ("shifts", "cyclic", "dihedral", "reflection", "permutations")
    try:
        if kind in plain:
            return Asked(text, kind, (_positive(rest),) if rest else ())
        if kind in ("rotations", "rotations-flips"):
            return Asked(text, kind, (_positive(rest),))
        if kind == "grid":
            height, _, width = rest.partition("x")
            return Asked(text, kind, (_positive(height), _positive(width)))
    except ValueError:
        pass
    raise MetasymError(f"expected a group like {', '.join(HELP)}, found {text!r}", about="group", found=text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1 or number > 10_000:
        raise ValueError
    return number


def act(asked: Asked, outputs: int, inputs: int) -> Action:
    """The group on a layer of that many outputs and inputs, or an error that says why it cannot act there."""
    if asked.kind == "file":
        return _from_file(asked.text, outputs, inputs)
    if asked.kind == "images":
        raise MetasymError(
            "group images: expected a function of images, found a layer: ask with --function",
            about="group images",
        )
    if asked.spatial:
        (order,) = asked.numbers
        out, inp = _image(asked, order, outputs), _image(asked, order, inputs)
        return _joined(asked.text, out, inp, inp.element_names)
    wanted = math.prod(asked.numbers) if asked.numbers else inputs
    if asked.kind != "reflection" and (outputs != wanted or inputs != wanted):
        raise MetasymError(
            f"group {asked.text}: expected {wanted} outputs and inputs, found {outputs} and {inputs}",
            about=f"group {asked.text}",
            found=(outputs, inputs),
        )
    make: dict[str, Callable[[int], list[list[int]]]] = {
        "shifts": lambda n: [_shift(n)],
        "cyclic": lambda n: [_shift(n)],
        "dihedral": lambda n: [_shift(n), [-i % n for i in range(n)]],
        "reflection": lambda n: [list(range(n - 1, -1, -1))],
        "permutations": lambda n: [[1, 0, *range(2, n)] if n > 1 else [0], _shift(n)],
        "grid": lambda _: _grid(*asked.numbers),
    }
    generators = make[asked.kind]
    return permutation_action(asked.text, generators(outputs), generators(inputs))


def _shift(n: int) -> list[int]:
    return [(i + 1) % n for i in range(n)]


def _grid(height: int, width: int) -> list[list[int]]:
    points = torch.arange(height * width).reshape(height, width)
    return [points.roll(-1, axis).flatten().tolist() for axis in (0, 1)]


def _image(asked: Asked, order: int, size: int) -> Group:
    side = math.isqrt(size)
    if side * side != size:
        raise MetasymError(
            f"group {asked.text}: expected a square image as inputs and outputs, found {size} numbers",
            about=f"group {asked.text}",
            found=size,
        )
    if order not in (1, 2, 4):
        raise MetasymError(
            f"group {asked.text}: expected 2 or 4 rotations on a fully connected layer (others do not map pixels "
            f"to pixels), found {order}",
            about=f"group {asked.text}",
            found=order,
        )
    return (
        image_rotations_flips(side, order)
        if asked.kind == "rotations-flips"
        else image_rotations(side, order)
    )


def permutation_action(
    name: str, outputs: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]]
) -> Action:
    """The group that pairs of permutations of outputs and of inputs generate."""
    pairs = [torch.tensor([*o, *(len(o) + j for j in i)]) for o, i in zip(outputs, inputs, strict=True)]
    return _paired(name, pairs, len(outputs[0]))


def found_action(name: str, generators: Sequence[SignedPermutation]) -> Action:
    """The group that was found in a layer; a group of signed permutations includes -1."""
    if not any(g.signed for g in generators):
        return permutation_action(name, [g.outputs for g in generators], [g.inputs for g in generators])
    pairs = [
        torch.block_diag(_signed(g.outputs, g.output_signs), _signed(g.inputs, g.input_signs))
        for g in generators
    ]
    return _paired(name, pairs, len(generators[0].outputs))


def _signed(images: Sequence[int], signs: Sequence[int]) -> Tensor:
    """The matrix that takes point i to ``signs[i]`` times point ``images[i]``."""
    matrix = torch.zeros(len(images), len(images), dtype=torch.float64)
    matrix[list(images), list(range(len(images)))] = torch.tensor(signs, dtype=torch.float64)
    return matrix


def _paired(name: str, pairs: list[Tensor], outputs: int) -> Action:
    """An action from generators on outputs and inputs side by side: the same element acts on both."""
    try:
        both = from_generators(pairs, max_order=MOST, name=name)
    except TooLargeError:
        if any(pair.ndim > 1 for pair in pairs):
            raise
        return _generators_only(name, torch.stack(pairs), outputs)
    if both.permutations is not None:
        parts = (both.permutations[:, :outputs], both.permutations[:, outputs:] - outputs)
        names = tuple(_named(p[:outputs], p[outputs:]) for p in both.permutations.tolist())
    else:
        parts = (both.matrices[:, :outputs, :outputs], both.matrices[:, outputs:, outputs:])
        names = tuple(f"element {i}" for i in range(both.order))
    rep_out, rep_in = (Group(part, both.table, name=name, generators=both.generators) for part in parts)
    return _joined(name, rep_out, rep_in, names)


def _named(outputs: Sequence[int], inputs: Sequence[int]) -> str:
    """An element in cycles, both sides where they differ; ``inputs`` are numbered behind the outputs."""
    own = [i - len(outputs) for i in inputs]
    sides = [("outputs", list(outputs)), ("inputs", own)]
    moved = [(side, images) for side, images in sides if images != list(range(len(images)))]
    if not moved:
        return "identity"
    if list(outputs) == own:
        return cycle_notation(own, most=_SHOWN)
    return ", ".join(f"{side} {cycle_notation(images, most=_SHOWN)}" for side, images in moved)


def _generators_only(name: str, pairs: Tensor, outputs: int) -> Action:
    """A group of permutations that is too large to list; its equivariant maps need its generators only."""
    out, inp = pairs[:, :outputs], pairs[:, outputs:] - outputs
    entries = out[:, :, None] * inp.shape[1] + inp[:, None, :]
    names = tuple(_named(*pair) for pair in zip(out.tolist(), pairs[:, outputs:].tolist(), strict=True))
    basis = orbit_basis(entries.flatten(1))
    return Action(name, names, out, inp, basis, complete=False, generators=tuple(range(len(names))))


def _joined(name: str, outputs: Group, inputs: Group, names: Sequence[str]) -> Action:
    both_permute = outputs.permutations is not None and inputs.permutations is not None
    parts = [rep.permutations if both_permute else rep.matrices for rep in (outputs, inputs)]
    assert parts[0] is not None
    assert parts[1] is not None
    basis = equivariant_basis(inputs, outputs)
    return Action(
        name,
        tuple(names),
        parts[0],
        parts[1],
        basis,
        complete=True,
        generators=tuple(int(g) for g in inputs.generators),
    )


def _from_file(path: str, outputs: int, inputs: int) -> Action:
    """Generators in a JSON file."""
    where = f"{path}: expected generators"
    try:
        found = json.loads(read_plain(path))
    except OSError as error:
        raise MetasymError(f"{where}, found {error.strerror}", about=path, found=error.strerror) from None
    except (ValueError, RecursionError):
        raise MetasymError(
            f"{where} in JSON, found another format", about=path, found="another format"
        ) from None
    if isinstance(found, list):
        found = {"outputs": found, "inputs": found}
    if not isinstance(found, dict) or not all(isinstance(found.get(k), list) for k in ("outputs", "inputs")):
        raise MetasymError(
            f'{where} {{"outputs": [...], "inputs": [...]}}, found another structure',
            about=path,
            found="another structure",
        )
    if len(found["outputs"]) != len(found["inputs"]) or not found["outputs"]:
        raise MetasymError(
            f"{where} in pairs, found {len(found['outputs'])} for outputs and {len(found['inputs'])} for inputs",
            about=path,
            found=(len(found["outputs"]), len(found["inputs"])),
        )
    sides = []
    for key, size in (("outputs", outputs), ("inputs", inputs)):
        parts = [from_generators([g]) for g in found[key]]  # checks each of them
        wrong = [part.degree for part in parts if part.degree != size]
        if wrong:
            raise MetasymError(
                f"{path}: expected generators of {size} {key}, found {wrong[0]}",
                about=f"{path}: {key}",
                found=wrong[0],
            )
        sides.append([part.matrices[part.generators[0]] for part in parts])
    return _paired(path, [torch.block_diag(o, i) for o, i in zip(*sides, strict=True)], outputs)
