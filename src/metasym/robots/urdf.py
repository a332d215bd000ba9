"""Reads robots from URDF files; meshes are not looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from metasym.robots.mechanism import (
    PRISMATIC,
    REVOLUTE,
    Array,
    Joint,
    Mechanism,
    pose,
    pseudo_inertia,
    rotation_about,
)
from metasym.types import MetasymError

_KINDS = {"revolute": REVOLUTE, "continuous": REVOLUTE, "prismatic": PRISMATIC}

Element = ElementTree.Element


@dataclass
class _Edge:
    """A joint of the file."""

    name: str
    kind: str
    child: str
    element: Element


@dataclass
class _Tree:
    """What the walk over the file collects."""

    where: str
    links: dict[str, Element]
    below: dict[str, list[_Edge]]
    joints: list[Joint] = field(default_factory=list)


def read_urdf(root: Element, path: Path, floating: bool | None = None) -> Mechanism:
    """The mechanism of a file's ``<robot>``; ``floating`` None decides by the file whether the base moves freely.

    Joints come depth first, siblings by their names, as Pinocchio has them.
    """
    where = str(path)
    links = _named(root.findall("link"), where, "link")
    edges = [
        _edge(name, one, links, where) for name, one in _named(root.findall("joint"), where, "joint").items()
    ]
    below: dict[str, list[_Edge]] = {name: [] for name in links}
    parents: dict[str, str] = {}
    for edge, parent in sorted(edges, key=lambda pair: pair[0].name):
        if edge.child in parents:
            raise MetasymError(
                f"{where}: expected one parent of link {edge.child}, found two",
                about=f"{where}: link {edge.child}",
                found="two parents",
            )
        parents[edge.child] = parent
        below[parent].append(edge)
    roots = [name for name in links if name not in parents]
    if len(roots) != 1:
        raise MetasymError(
            f"{where}: expected one link that no joint moves, found {len(roots)}",
            about=f"{where}: links that no joint moves",
            found=len(roots),
        )
    base = roots[0]
    only = below[base][0] if len(below[base]) == 1 else None
    if only is not None and only.kind == "floating":  # a world, and the robot free in it
        base, floating = only.child, True if floating is None else floating
    tree = _Tree(where, links, below)
    inertia = _walk(tree, base, -1, np.eye(4))
    if floating is None:
        floating = bool(inertia[3, 3] > 0) and sum(joint.parent < 0 for joint in tree.joints) > 1
    mimics = [edge.name for edge, _ in edges if edge.element.find("mimic") is not None]
    notes = (f"joints that mimic others count as separate joints: {', '.join(mimics)}",) if mimics else ()
    return Mechanism(path.name, tuple(tree.joints), base, inertia, floating, notes)


def _walk(tree: _Tree, link: str, parent: int, frame: Array) -> Array:
    """The pseudo-inertia of the body that ``link`` is a part of, in the frame of the joint ``parent``.

    ``frame`` is the link's frame there. Joints below are added to the tree's.
    """
    inertia: Array = frame @ _inertia(tree, link) @ frame.T
    for edge in tree.below[link]:
        at = frame @ _origin(edge.element, f"{tree.where}: joint {edge.name}")
        if edge.kind == "fixed":
            inertia = inertia + _walk(tree, edge.child, parent, at)
            continue
        here = len(tree.joints)
        lower, upper = _limits(edge, tree.where)
        moved = _axis(edge, tree.where)
        damping, friction = _losses(edge, tree.where)
        blank = Joint(
            edge.name,
            _KINDS[edge.kind],
            parent,
            at,
            moved,
            edge.child,
            np.zeros((4, 4)),
            lower,
            upper,
            damping=damping,
            friction=friction,
        )
        tree.joints.append(blank)
        tree.joints[here] = replace(blank, inertia=_walk(tree, edge.child, here, np.eye(4)))
    return inertia


def _named(elements: list[Element], where: str, what: str) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for one in elements:
        name = one.get("name")
        if not name:
            raise MetasymError(
                f"{where}: expected a name of every {what}, found one without",
                about=f"{where}: {what}",
                found="no name",
            )
        if name in found:
            raise MetasymError(
                f"{where}: expected {what}s of different names, found two of {name}",
                about=f"{where}: {what} {name}",
                found="twice",
            )
        found[name] = one
    return found


def _edge(name: str, joint: Element, links: dict[str, Element], where: str) -> tuple[_Edge, str]:
    kind = joint.get("type", "")
    if kind not in (*_KINDS, "fixed", "floating"):
        known = "revolute, continuous, prismatic or fixed"
        raise MetasymError(
            f"{where}: joint {name}: expected type {known}, found {kind or 'none'}",
            about=f"{where}: joint {name}: type",
            found=kind,
        )
    ends = []
    for end in ("parent", "child"):
        element = joint.find(end)
        link = element.get("link", "") if element is not None else ""
        if link not in links:
            raise MetasymError(
                f"{where}: joint {name}: expected a link as {end}, found {link or 'none'}",
                about=f"{where}: joint {name}: {end}",
                found=link,
            )
        ends.append(link)
    return _Edge(name, kind, ends[1], joint), ends[0]


def _axis(edge: _Edge, where: str) -> Array:
    if edge.kind == "floating":
        raise MetasymError(
            f"{where}: joint {edge.name}: expected a floating joint at the root only, found it inside",
            about=f"{where}: joint {edge.name}",
            found="floating",
        )
    element = edge.element.find("axis")
    given = (
        (1.0, 0.0, 0.0)
        if element is None
        else _numbers(element.get("xyz", "1 0 0"), 3, f"{where}: {edge.name}")
    )
    axis = np.array(given)
    length = float(np.linalg.norm(axis))
    if length == 0:
        raise MetasymError(
            f"{where}: joint {edge.name}: expected an axis, found 0 0 0",
            about=f"{where}: joint {edge.name}: axis",
            found=(0.0, 0.0, 0.0),
        )
    return axis / length


def _limits(edge: _Edge, where: str) -> tuple[float, float]:
    element = edge.element.find("limit")
    if (
        element is None
        or edge.kind == "continuous"
        or (element.get("lower") is None and element.get("upper") is None)
    ):
        return -math.inf, math.inf
    at = f"{where}: limits of joint {edge.name}"
    lower, upper = (_numbers(element.get(end, "0"), 1, at)[0] for end in ("lower", "upper"))
    return lower, upper


def _losses(edge: _Edge, where: str) -> tuple[float, float]:
    """Damping and friction."""
    element = edge.element.find("dynamics")
    if element is None:
        return 0.0, 0.0
    at = f"{where}: dynamics of joint {edge.name}"
    damping, friction = (_numbers(element.get(what, "0"), 1, at)[0] for what in ("damping", "friction"))
    return damping, friction


def _origin(element: Element, where: str) -> Array:
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    roll, pitch, yaw = _numbers(origin.get("rpy", "0 0 0"), 3, where)
    x, y, z = np.eye(3)
    turn = rotation_about(z, yaw) @ rotation_about(y, pitch) @ rotation_about(x, roll)
    return pose(turn, _numbers(origin.get("xyz", "0 0 0"), 3, where))


def _inertia(tree: _Tree, link: str) -> Array:
    element = tree.links[link].find("inertial")
    if element is None:
        return np.zeros((4, 4))
    where = f"{tree.where}: inertia of link {link}"
    mass, moments = element.find("mass"), element.find("inertia")
    kilograms = 0.0 if mass is None else _numbers(mass.get("value", "0"), 1, where)[0]
    usual = np.zeros((3, 3))
    if moments is not None:
        for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
            usual[i, j] = usual[j, i] = _numbers(moments.get(f"i{'xyz'[i]}{'xyz'[j]}", "0"), 1, where)[0]
    frame = _origin(element, where)
    return frame @ pseudo_inertia(kilograms, np.zeros(3), usual) @ frame.T


def _numbers(text: str, count: int, where: str) -> list[float]:
    try:
        found = [float(word) for word in text.split()]
    except ValueError:
        found = []
    if len(found) != count or not all(map(math.isfinite, found)):
        raise MetasymError(
            f"{where}: expected {'a number' if count == 1 else f'{count} numbers'}, found {text!r}",
            about=where,
            found=text,
        )
    return found
