"""Writes the Python function that mirrors observations and actions of a policy, in the layout that the policy has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metasym.argument_types import checked
from metasym.robots.mechanism import Array, cross_matrix
from metasym.robots.robot_symmetries import RobotSymmetries
from metasym.types import MetasymError

POLAR = ("lin_vel", "gravity")
"""Vectors like a velocity: the base's mirror moves them."""
AXIAL = ("ang_vel",)
"""Vectors like an angular velocity: a mirror changes their sign beside."""
JOINTS = ("joint_pos", "joint_vel", "actions", "torques")
COMMAND = "command"
"""Forward velocity, sideways velocity, yaw rate."""
TERMS = (*AXIAL, *POLAR, COMMAND, *JOINTS, "keep:N")


@dataclass(frozen=True)
class _Term:
    """A part of the observation: its name and the matrix that mirrors it, with what is added after."""

    name: str
    matrix: Array
    added: Array


@checked
def observation_code(
    found: RobotSymmetries,
    layout: Sequence[str],
    *,
    joints: Sequence[str] = (),
    generator: int = 0,
    absolute: bool = False,
) -> str:
    """The source of ``mirror_observations`` and ``mirror_actions``, which need no other package than yours.

    Args:
        found: The robot's symmetries.
        layout: The observation's parts in their order, of :data:`TERMS`.
        joints: The policy's joints in their order; default: all, in the file's order.
        generator: Which generator is meant.
        absolute: Whether ``joint_pos`` holds positions as the file counts them; by default they are relative to a
            posture that the mirror keeps.

    """
    if not found.generators:
        raise MetasymError(
            f"{found.mechanism.name}: expected a robot with a mirror, found none",
            about=found.mechanism.name,
            found=0,
        )
    if not 0 <= generator < len(found.generators):
        raise MetasymError(
            f"expected a generator below {len(found.generators)}, found {generator}",
            about="generator",
            found=generator,
        )
    g = found.generators[generator]
    order = _order(found, joints, g.action.images)
    index = {i: k for k, i in enumerate(order)}
    moved = np.zeros((len(order), len(order)))
    for i in order:
        moved[index[g.action.images[i]], index[i]] = g.action.signs[i]
    centre = found.centre[order]
    terms = [
        _term(name, g.action.isometry[:3, :3], moved, centre if absolute else 0.0 * centre) for name in layout
    ]
    size = sum(len(one.added) for one in terms)
    if size == 0:
        raise MetasymError(
            f"expected parts of an observation ({', '.join(TERMS)}), found none", about="layout", found=()
        )
    whole, added, at = np.zeros((size, size)), np.zeros(size), 0
    lines, starts = [], {}
    for one in terms:
        k = len(one.added)
        whole[at : at + k, at : at + k], added[at : at + k] = one.matrix, one.added
        lines.append(f"  {one.name:<12}[{at}:{at + k}]")
        starts[one.name] = at
        at += k
    _move_origin(whole, starts, g.action.isometry, found.mechanism.size)
    return _source(found, generator, [found.names[i] for i in order], lines, (whole, added), moved)


def _move_origin(whole: Array, starts: dict[str, int], isometry: Array, size: float) -> None:
    """Add to the linear velocity what a base whose origin is not on the mirror's plane has from turning."""
    linear, translation = isometry[:3, :3], isometry[:3, 3]
    if "lin_vel" not in starts or np.abs(translation).max() < 1e-9 * size:
        return
    if "ang_vel" not in starts:
        raise MetasymError(
            "expected ang_vel together with lin_vel, because the base's origin is not on the plane, found none",
            about="layout",
            found="lin_vel without ang_vel",
        )
    to, of = starts["lin_vel"], starts["ang_vel"]
    whole[to : to + 3, of : of + 3] = cross_matrix(translation) @ (np.linalg.det(linear) * linear)


def _order(found: RobotSymmetries, joints: Sequence[str], images: tuple[int, ...]) -> list[int]:
    names = found.names
    for name in joints:
        if name not in names:
            raise MetasymError(f"expected joints of the robot, found {name!r}", about="joints", found=name)
    if len(set(joints)) < len(joints):
        raise MetasymError(
            "expected every joint once in the policy's order, found one twice",
            about="joints",
            found=tuple(joints),
        )
    order = [names.index(name) for name in joints] or list(range(len(names)))
    without = [names[i] for i in order if images[i] not in order]
    if without:
        raise MetasymError(
            f"expected the image of every joint among the policy's joints, found none of {without[0]}",
            about="joints",
            found=f"no image of {without[0]}",
        )
    return order


def _term(name: str, linear: Array, moved: Array, centre: Array) -> _Term:
    axial = np.linalg.det(linear) * linear
    if name in POLAR:
        return _Term(name, linear, np.zeros(3))
    if name in AXIAL:
        return _Term(name, axial, np.zeros(3))
    if name == COMMAND:
        if abs(linear[2, 2] - 1) > 1e-6:
            raise MetasymError(
                "expected a mirror that keeps the vertical for a command, found one that does not",
                about="layout",
                found=name,
            )
        matrix = np.zeros((3, 3))
        matrix[:2, :2], matrix[2, 2] = linear[:2, :2], axial[2, 2]
        return _Term(name, matrix, np.zeros(3))
    if name in JOINTS:
        added = centre - moved @ centre if name == "joint_pos" else np.zeros(len(moved))
        return _Term(name, moved, added)
    kept = name.removeprefix("keep:")
    if kept != name and kept.isdigit() and int(kept) > 0:
        return _Term("keep", np.eye(int(kept)), np.zeros(int(kept)))
    raise MetasymError(
        f"expected parts of an observation ({', '.join(TERMS)}), found {name!r}", about="layout", found=name
    )


def _source(
    found: RobotSymmetries,
    generator: int,
    joints: list[str],
    layout: list[str],
    observation: tuple[Array, Array],
    actions: Array,
) -> str:
    g = found.generators[generator]
    order = g.permutation.order
    parts = [
        f'"""Mirrors observations and actions of {found.mechanism.name}: {g.base}.',
        "",
        f"{g.status}: defect of the joint inertia at most {g.defect_upper:.2g} (95 %). Written by metasym mirror.",
        "",
        "Observation:",
        *layout,
        "",
        "Joints, in the policy's order:",
        *(f"  {i:3} {name}" for i, name in enumerate(joints)),
        '"""',
        "",
        *_constants("OBSERVATION", *observation),
        *_constants("ACTION", actions, np.zeros(len(actions))),
        "",
        "",
        "def mirror_observations(observations):",
        '    """The mirrored observations ``[..., size]``, of numpy or torch."""',
        *_body("observations", "OBSERVATION", *observation),
        "",
        "",
        "def mirror_actions(actions):",
        '    """The mirrored actions ``[..., joints]``, of numpy or torch."""',
        *_body("actions", "ACTION", actions, np.zeros(len(actions))),
        "",
        "",
        "def _like(values, other):",
        '    """The numbers as a tensor or an array like the other."""',
        '    if hasattr(other, "new_tensor"):',
        "        return other.new_tensor(values)",
        "    import numpy",
        "",
        "    return numpy.asarray(values, other.dtype)",
        "",
        "",
        'if __name__ == "__main__":  # applied as often as its order, the mirror must give back what it was given',
        "    import numpy",
        "",
        "    for function, size in ((mirror_observations, OBSERVATION_SIZE), (mirror_actions, ACTION_SIZE)):",
        "        given = numpy.random.default_rng(0).normal(size=(8, size))",
        "        moved = given",
        f"        for _ in range({order}):",
        "            moved = function(moved)",
        "        assert abs(moved - given).max() < 1e-9, function.__name__",
        f'    print("mirrored {order} times: as before")',
    ]
    return "\n".join(parts) + "\n"


def _signed(matrix: Array) -> tuple[list[int], list[int]] | None:
    """A matrix that permutes with signs, as where each entry comes from and its sign; None for others."""
    source = np.abs(matrix).argmax(1)
    signs = np.sign(matrix[np.arange(len(matrix)), source])
    exact = np.zeros_like(matrix)
    exact[np.arange(len(matrix)), source] = signs
    if np.abs(exact - matrix).max() > 1e-9:
        return None
    return source.tolist(), [int(s) for s in signs]


def _constants(name: str, matrix: Array, added: Array) -> list[str]:
    signed = _signed(matrix)
    lines = [f"{name}_SIZE = {len(matrix)}"]
    if signed is not None:
        lines += [f"{name}_FROM = {signed[0]}", f"{name}_SIGN = {signed[1]}"]
    else:
        rows = ",\n    ".join(str([round(float(v), 12) + 0.0 for v in row]) for row in matrix.T)  # x @ matrix
        lines.append(f"{name}_MATRIX = [\n    {rows},\n]")
    if np.abs(added).max() > 0:
        lines.append(f"{name}_ADDED = {[round(float(v), 12) + 0.0 for v in added]}")
    return lines


def _body(argument: str, name: str, matrix: Array, added: Array) -> list[str]:
    check = [
        f"    if {argument}.shape[-1] != {name}_SIZE:",
        f'        raise ValueError(f"expected {{{name}_SIZE}} numbers, found {{{argument}.shape[-1]}}")',
    ]
    if _signed(matrix) is not None:
        moved = f"{argument}[..., {name}_FROM] * _like({name}_SIGN, {argument})"
    else:
        moved = f"{argument} @ _like({name}_MATRIX, {argument})"
    more = f" + _like({name}_ADDED, {argument})" if np.abs(added).max() > 0 else ""
    return [*check, f"    return {moved}{more}"]
