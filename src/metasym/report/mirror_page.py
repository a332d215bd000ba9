"""One HTML page about a robot's mirrors: a drawing of the robot before its mirror plane, tables, what breaks them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from metasym.report.page.templates import template
from metasym.robots.dynamics import frames_at
from metasym.robots.mechanism import Array
from metasym.robots.mirror_words import (
    about_robot,
    breaking_words,
    evidence_words,
    refused_words,
    verdict_words,
)
from metasym.robots.robot_symmetries import RobotSymmetries, RobotSymmetry
from metasym.storage.atomic import as_bytes, make_folder, write_atomically
from metasym.types import MetasymError
from metasym.verdicts.verdict import Status

_WIDTH, _HEIGHT, _EDGE = 520, 420, 30
_COLOURS = 8
_WORDS = (
    ("defect", "How much of the joint inertia changes when the robot is mirrored, over postures."),
    ("centre", "A posture that the mirror keeps. Positions are measured from it before they change sign."),
    ("certified", "The geometry fits, and the defect is below the tolerance at 95 % confidence."),
    ("certified approximately", "The geometry fits; masses or limits in the file fit only nearly."),
)


def write_mirror_page(found: RobotSymmetries, out: Path) -> str:
    """The page, written to the file ``out`` whole or not at all."""
    if out.is_dir():
        raise MetasymError(
            f"{out}: expected a file to write the page to, found a folder", about=str(out), found="a folder"
        )
    html = mirror_page(found)
    make_folder(out.parent)
    write_atomically(out, as_bytes(html), what="a page")
    return html


def mirror_page(found: RobotSymmetries) -> str:
    """The page as text: it needs no network and runs no script."""
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    said = verdict_words(found)
    return template("mirror.html").render(
        style=Markup(style),
        robot=found.mechanism.name,
        lead=said[:1].upper() + said[1:],
        about=about_robot(found),
        elements=[_element(found, g) for g in found.generators],
        refused=refused_words(found),
        notes=found.mechanism.notes,
        words=_WORDS,
        width=_WIDTH,
        height=_HEIGHT,
    )


def _element(found: RobotSymmetries, g: RobotSymmetry) -> dict[str, Any]:
    return {
        "base": g.base,
        "status": str(g.status),
        "certified": g.status == Status.CERTIFIED,
        "evidence": evidence_words(found, g),
        "drawing": _drawing(found, g),
        "rows": [
            (row["joint"], row["image"], "+" if row["sign"] > 0 else "−", f"{centre:.4g}")
            for row, centre in zip(g.table(found.names), found.centre, strict=True)
        ],
        "breaks": breaking_words(g),
    }


def _drawing(found: RobotSymmetries, g: RobotSymmetry) -> dict[str, Any]:
    """The robot at its centre, a plane of symmetry seen from its edge, a turn along its axis."""
    robot = found.mechanism
    frames = frames_at(robot, found.centre[None])[0]
    points = np.concatenate([np.zeros((1, 3)), frames[:, :3, 3]])
    across, up = _view(g.action.isometry[:3, :3])
    flat = points @ np.stack([across, up], axis=1)
    low, high = flat.min(0), flat.max(0)
    room = (np.array([_WIDTH, _HEIGHT]) - 2 * _EDGE) / np.maximum(high - low, 1e-9)
    scale, middle = float(room.min()), (low + high) / 2
    drawn = (flat - middle) * scale * np.array([1, -1]) + np.array([_WIDTH, _HEIGHT]) / 2
    at = [(round(float(x), 1), round(float(y), 1)) for x, y in drawn]
    plane = None
    if g.action.mirrors:
        aside = float(across @ g.action.isometry[:3, 3]) / 2
        plane = round((aside - float(middle[0])) * scale + _WIDTH / 2, 1)
    return {
        "plane": plane,
        "base": at[0],
        "links": [(*at[joint.parent + 1], *at[i + 1]) for i, joint in enumerate(robot.joints)],
        "joints": [
            (
                *at[i + 1],
                min(i, j) % _COLOURS,
                sign > 0,
                f"{joint.name} to {'' if sign > 0 else '−'}{robot.names[j]}",
            )
            for i, (joint, j, sign) in enumerate(
                zip(robot.joints, g.action.images, g.action.signs, strict=True)
            )
        ],
    }


def _view(linear: Array) -> tuple[Array, Array]:
    """Two directions to draw along: across a mirror's plane and up; for a turn, both across its axis."""
    x, z = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    values, vectors = np.linalg.eigh((linear + linear.T) / 2)
    if np.linalg.det(linear) < 0:
        across = vectors[:, 0]
        up = z - across * float(across @ z)
        if np.linalg.norm(up) < 0.1:
            up = x - across * float(across @ x)
    else:
        axis = vectors[:, int(values.argmax())]
        across = np.cross(axis, z) if abs(float(axis @ z)) < 0.9 else np.cross(axis, x)
        up = np.cross(across, axis)
    if across.sum() < 0:
        across = -across
    return across / np.linalg.norm(across), up / np.linalg.norm(up)
