"""One HTML page about a robot's mirrors: a drawing of the robot before its mirror plane, tables, what breaks them."""

from __future__ import annotations

import math
from importlib.resources import files
from pathlib import Path

import numpy as np
from markupsafe import escape

from metasym.robots.dynamics import frames_at
from metasym.robots.isometries import isometry_words
from metasym.robots.mechanism import Array
from metasym.robots.mirror_words import (
    about_robot,
    breaking_words,
    evidence_words,
    refused_words,
    verdict_words,
)
from metasym.robots.robot_symmetries import RobotSymmetries, RobotSymmetry
from metasym.storage.atomic import make_folder, write_atomically
from metasym.types import MetasymError

_WIDTH, _HEIGHT, _EDGE = 520, 420, 30
_COLOURS = 8


def write_mirror_page(found: RobotSymmetries, out: Path) -> str:
    """The page, written to the file ``out`` whole or not at all."""
    if out.is_dir():
        raise MetasymError(f"{out}: expected a file to write the page to, found a folder")
    html = mirror_page(found)
    make_folder(out.parent)
    write_atomically(out, html.encode(), what="a page")
    return html


def mirror_page(found: RobotSymmetries) -> str:
    """The page as text: it needs no network and runs no script."""
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    said = verdict_words(found)
    parts = [
        f"<h1>Mirrors of {escape(found.mechanism.name)}</h1>",
        f'<p class="lead">{escape(said[:1].upper() + said[1:])}</p>',
        f'<p class="quiet">{escape(about_robot(found))}</p>',
        *(_element(found, g) for g in found.generators),
        _refused(found),
        "".join(f'<p class="note">{escape(note)}.</p>' for note in found.mechanism.notes),
        _words(),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Mirrors of {escape(found.mechanism.name)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<main style="padding-top: 1.5rem">\n{"".join(part for part in parts if part)}\n</main>\n</body>\n</html>\n'
    )


def _element(found: RobotSymmetries, g: RobotSymmetry) -> str:
    broken = "".join(f"<li>{escape(line)}</li>" for line in breaking_words(g))
    listed = f"<h3>What breaks it</h3><ul>{broken}</ul>" if broken else ""
    state = "" if g.status == "certified" else " open"
    return (
        f'<section><h2>{escape(g.base)} <span class="chip{state}">{escape(str(g.status))}</span></h2>'
        f"<p>{escape(evidence_words(found, g))}.</p>{drawing(found, g)}{_table(found, g)}{listed}</section>"
    )


def _table(found: RobotSymmetries, g: RobotSymmetry) -> str:
    rows = []
    for i, row in enumerate(g.table(found.names)):
        sign = "+" if row["sign"] > 0 else "−"
        about = f"{found.centre[i]:.4g}" if found.centre[i] else "0"
        rows.append(
            f'<tr><th scope="row">{escape(row["joint"])}</th><td>{escape(row["image"])}</td><td>{sign}</td>'
            f'<td class="n">{about}</td></tr>'
        )
    return (
        '<div class="scroll"><table><caption>The position of the image becomes sign times that of the joint, both '
        "counted from the centre</caption><thead><tr><th>joint</th><th>image</th><th>sign</th><th>centre</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def drawing(found: RobotSymmetries, g: RobotSymmetry) -> str:
    """The robot at its centre, its plane of symmetry seen from the edge; a joint and its image in one colour.

    Rings are joints whose sign changes. A turn is seen along its axis.
    """
    robot = found.mechanism
    frames = frames_at(robot, found.centre[None])[0]
    points = np.concatenate([np.zeros((1, 3)), frames[:, :3, 3]])
    across, up = _view(g.action.isometry[:3, :3])
    at = points @ np.stack([across, up], axis=1)
    low, high = at.min(0), at.max(0)
    room = (np.array([_WIDTH, _HEIGHT]) - 2 * _EDGE) / np.maximum(high - low, 1e-9)
    scale = float(room.min())
    middle = (low + high) / 2

    def place(p: Array) -> tuple[float, float]:
        x, y = (p - middle) * scale
        return _WIDTH / 2 + float(x), _HEIGHT / 2 - float(y)

    shapes = []
    if g.action.mirrors:
        x = place(np.array([float(across @ g.action.isometry[:3, 3]) / 2, 0.0]))[0]
        shapes.append(
            f'<line x1="{x:.1f}" y1="8" x2="{x:.1f}" y2="{_HEIGHT - 8}" stroke="var(--quiet)" '
            'stroke-dasharray="6 5"/>'
        )
    for i, joint in enumerate(robot.joints):
        (x1, y1), (x2, y2) = place(at[joint.parent + 1]), place(at[i + 1])
        shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="var(--line)" stroke-width="4" '
            'stroke-linecap="round"/>'
        )
    x, y = place(at[0])
    shapes.append(f'<rect x="{x - 7:.1f}" y="{y - 7:.1f}" width="14" height="14" fill="var(--quiet)"/>')
    for i, (joint, j, sign) in enumerate(zip(robot.joints, g.action.images, g.action.signs, strict=True)):
        x, y = place(at[i + 1])
        colour = f"var(--c{min(i, j) % _COLOURS})"
        fill = colour if sign > 0 else "var(--card)"
        text = f"{joint.name} to {'' if sign > 0 else '−'}{robot.names[j]}"
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{fill}" stroke="{colour}" stroke-width="3">'
            f"<title>{escape(text)}</title></circle>"
        )
    about = f"{robot.name} and its {isometry_words(g.action.isometry)}"
    return (
        f'<figure><svg role="img" aria-label="{escape(about)}" width="{_WIDTH}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'style="max-width:100%;height:auto;background:var(--card)">{"".join(shapes)}</svg><figcaption class="quiet">'
        "Joints at the posture that the symmetry keeps; a joint and its image have one colour, rings change their "
        "sign, the square is the base.</figcaption></figure>"
    )


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
    if math.fsum(across) < 0:
        across = -across
    return across / np.linalg.norm(across), up / np.linalg.norm(up)


def _refused(found: RobotSymmetries) -> str:
    if not found.refused:
        return ""
    rows = [f"<li>{escape(line)}</li>" for line in refused_words(found)]
    return f"<section><h2>Geometry has them, the robot does not</h2><ul>{''.join(rows)}</ul></section>"


def _words() -> str:
    meanings = (
        (
            "defect",
            "How much of the joint inertia changes when the robot is mirrored, root mean square over postures.",
        ),
        ("centre", "A posture that the mirror keeps; positions change sign about it."),
        ("certified", "Geometry fits, and no defect above the tolerance is left at 95 %."),
        ("certified approximately", "Geometry fits; masses or limits in the file do so only nearly."),
    )
    items = "".join(f"<dt>{word}</dt><dd>{escape(meaning)}</dd>" for word, meaning in meanings)
    return f'<section><h2 id="words">Words</h2><dl class="words">{items}</dl></section>'
