"""Small robots as URDF text, mirrored by construction, with places to break them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

Vector = Sequence[float]


def numbers(values: Vector) -> str:
    return " ".join(repr(float(v)) for v in values)


def link(
    name: str, mass: float = 1.0, centre: Vector = (0, 0, 0), inertia: Vector = (0.02, 0.03, 0.04)
) -> str:
    if mass == 0:
        return f'<link name="{name}"/>'
    moments = " ".join(f'i{a}{a}="{v!r}"' for a, v in zip("xyz", map(float, inertia), strict=True))
    return (
        f'<link name="{name}"><inertial><origin xyz="{numbers(centre)}"/><mass value="{mass!r}"/>'
        f'<inertia {moments} ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(
    name: str,
    parent: str,
    child: str,
    xyz: Vector = (0, 0, 0),
    axis: Vector = (1, 0, 0),
    kind: str = "revolute",
    limits: tuple[float, float] = (-3.2, 3.2),
    rpy: Vector = (0, 0, 0),
) -> str:
    limit = f'<limit lower="{limits[0]}" upper="{limits[1]}" effort="1" velocity="1"/>'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{numbers(xyz)}" rpy="{numbers(rpy)}"/><axis xyz="{numbers(axis)}"/>{limit}</joint>'
    )


def robot(*parts: str) -> str:
    return f'<robot name="tiny">{"".join(parts)}</robot>'


def biped(
    *,
    left_mass: float = 0.8,
    trunk_centre: Vector = (0.03, 0.0, 0.1),
    left_limits: tuple[float, float] = (-0.5, 1.0),
    at: Vector = (0, 0, 0),
    yaw: float = 0.0,
) -> str:
    """Two legs of hip roll, hip pitch and a telescope, left and right of a trunk: the plane y = 0 is its mirror.

    With ``at`` and ``yaw`` the trunk's frame is elsewhere, so that the plane lies aside and turned. The signs must be
    -1 for the rolls (their axes lie in the plane), +1 for the pitches and the telescopes.
    """
    parts = [link("base", 0), link("trunk", 5.0, trunk_centre, (0.3, 0.2, 0.1))]
    parts.append(joint("weld", "base", "trunk", at, kind="fixed", rpy=(0, 0, yaw)))
    for side, y in (("left", 1.0), ("right", -1.0)):
        mass = left_mass if side == "left" else 0.8
        roll = left_limits if side == "left" else (-1.0, 0.5)
        parts += [
            link(f"{side}_hip", 0.5, (0.01, 0.02 * y, 0)),
            link(f"{side}_thigh", mass, (0.02, 0.01 * y, -0.1)),
            link(f"{side}_foot", 0.3, (0.04, 0.0, -0.05), (0.001, 0.002, 0.003)),
            joint(f"{side}_roll", "trunk", f"{side}_hip", (0.02, 0.1 * y, 0), (1, 0, 0), limits=roll),
            joint(f"{side}_pitch", f"{side}_hip", f"{side}_thigh", (0, 0.05 * y, 0), (0, 1, 0)),
            joint(
                f"{side}_slide",
                f"{side}_thigh",
                f"{side}_foot",
                (0, 0, -0.3),
                (0, 0, -1),
                "prismatic",
                (0, 0.1),
            ),
        ]
    return robot(*parts)


def fingers(count: int = 3, broken: float = 0.0) -> str:
    """Fingers around a palm that stands, each of two joints; ``broken`` moves a joint of the last one."""
    import math

    parts = [link("palm", 0)]
    for k in range(count):
        angle = 2 * math.pi * k / count
        where = (0.2 * math.cos(angle), 0.2 * math.sin(angle), 0.0)
        more = broken if k == count - 1 else 0.0
        parts += [
            link(f"upper{k}", 0.4, (0.05, 0.01, 0.1)),
            link(f"lower{k}", 0.2, (0.02, -0.01, 0.1)),
            joint(f"first{k}", "palm", f"upper{k}", where, (1, 0, 0), rpy=(0, 0, angle)),
            joint(f"second{k}", f"upper{k}", f"lower{k}", (0, 0.01 + more, 0.2), (0.6, 0.8, 0)),
        ]
    return robot(*parts)


def arm(offset: float = 0.0) -> str:
    """A standing arm whose drawn posture points forward; upright it lies in the plane x = 0, where ``offset`` is 0.

    The shoulder turns about z, then two joints about y: their axes lie in the plane, so that all signs are -1 about a
    centre of -pi/2 in the second joint.
    """
    return robot(
        link("foot", 0),
        link("shoulder", 2.0, (0, 0.05, 0)),
        link("upper", 1.5, (0.2, 0.08, 0)),
        link("lower", 1.0, (0.15, 0.02, 0), (0.01, 0.02, 0.02)),
        link("hand", 0.4, (0.0, 0.03, 0.0), (0.001, 0.002, 0.002)),
        joint("yaw", "foot", "shoulder", (0, 0, 0.3), (0, 0, 1)),
        joint("lift", "shoulder", "upper", (0, 0.1, 0), (0, 1, 0)),
        joint("bend", "upper", "lower", (0.4, 0.0, offset), (0, 1, 0)),
        joint("twist", "lower", "hand", (0.3, -0.05, 0), (1, 0, 0)),
    )


def written(folder: Path, text: str, name: str = "tiny.urdf") -> Path:
    path = folder / name
    path.write_text(text)
    return path
