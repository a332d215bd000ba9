"""Tables of joints that people write by hand: which joint mirrors which, with which sign. Read, and written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metasym.argument_types import check_fields, checked
from metasym.groups.signed_permutations import SignedPermutation
from metasym.robots.robot_symmetries import RobotSymmetries
from metasym.storage.plain_files import read_plain
from metasym.types import MetasymError

_LABELS = {"Z_2 x Z_2": "K4", "Z_2 x Z_2 x Z_2": "DH2"}
"""What morpho-symm calls groups; Z_n is Cn there, D_n is Dn."""

FORMS = (
    'a list of {"joint", "image", "sign"}, {"joint": "image" or "-image"}, '
    "or permutation_Q_js and reflection_Q_js"
)


@dataclass(frozen=True)
class JointTable:
    """One mirror as a user wrote it: the position of a joint's image becomes sign times the joint's."""

    moves: dict[str, tuple[str, int]]
    """The image and the sign of every joint that the table names."""

    def __post_init__(self) -> None:
        check_fields(self)


@checked
def read_tables(path: str | Path, names: Sequence[str]) -> list[JointTable]:
    """Read and check the joint tables in a JSON or YAML file.

    Args:
        path: The file.
        names: The robot's joints, in order.
    """
    file = Path(path)
    try:
        text = read_plain(file).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        found = error.strerror if isinstance(error, OSError) else "no text"
        raise MetasymError(
            f"{file}: expected a table of joints, found {found}", about=str(file), found=found
        ) from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _morpho_keys(text)
        if value is None:
            raise MetasymError(
                f"{file}: expected {FORMS}, found neither JSON nor these keys in YAML",
                about=str(file),
            ) from None
    return parse_tables(value, names, str(file))


@checked
def parse_tables(value: Any, names: Sequence[str], where: str = "table") -> list[JointTable]:
    """Return the joint tables in a value of plain types.

    Args:
        value: A table in any of the accepted forms, or what ``metasym mirror --json`` writes.
        names: The robot's joints, in order.
        where: What an error message calls the value.
    """
    if isinstance(value, dict) and isinstance(value.get("generators"), list):
        return [one for g in value["generators"] for one in parse_tables(g, names, where)]
    if isinstance(value, dict) and "table" in value:
        return parse_tables(value["table"], names, where)
    if isinstance(value, dict) and "permutation_Q_js" in value:
        return _morpho_tables(value, names, where)
    if isinstance(value, dict):
        rows = [(joint, *_image(image, where)) for joint, image in value.items()]
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        rows = [(row.get("joint"), row.get("image"), row.get("sign")) for row in value]
    else:
        raise MetasymError(
            f"{where}: expected {FORMS}, found a {type(value).__name__}",
            about=where,
            found=type(value).__name__,
        )
    return [_checked(rows, names, where)]


def _image(image: Any, where: str) -> tuple[Any, Any]:
    if isinstance(image, str):
        return (image[1:], -1) if image.startswith("-") else (image.removeprefix("+"), 1)
    if isinstance(image, list) and len(image) == 2:
        return image[0], image[1]
    raise MetasymError(
        f'{where}: expected an image as "name", "-name" or ["name", -1], found {image!r}',
        about=f"{where}: image",
        found=image,
    )


def _checked(rows: Sequence[tuple[Any, Any, Any]], names: Sequence[str], where: str) -> JointTable:
    moves: dict[str, tuple[str, int]] = {}
    for joint, image, sign in rows:
        for name in (joint, image):
            if name not in names:
                raise MetasymError(
                    f"{where}: expected joints of the robot, found {name!r}",
                    about=f"{where}: joint",
                    found=name,
                )
        if isinstance(sign, bool) or sign not in (1, -1):
            raise MetasymError(
                f"{where}: joint {joint}: expected a sign of 1 or -1, found {sign!r}",
                about=f"{where}: joint {joint}: sign",
                found=sign,
            )
        if joint in moves:
            raise MetasymError(
                f"{where}: expected every joint once, found {joint} twice",
                about=f"{where}: joint {joint}",
                found="twice",
            )
        moves[joint] = (image, int(sign))
    images = [image for image, _ in moves.values()]
    twice = next((image for image in images if images.count(image) > 1), None)
    if twice is not None:
        raise MetasymError(
            f"{where}: expected every joint once as an image, found {twice} twice",
            about=f"{where}: image {twice}",
            found="twice",
        )
    missing = sorted(set(moves) ^ set(images))
    if missing:
        raise MetasymError(
            f"{where}: expected each joint to have and to be an image, found {missing[0]} without",
            about=f"{where}: joint {missing[0]}",
            found="no image",
        )
    return JointTable(moves)


def _morpho_tables(value: dict[str, Any], names: Sequence[str], where: str) -> list[JointTable]:
    """morpho-symm's form: entry i of the mirrored positions is ``reflection[i] q[permutation[i]]``."""
    lists: list[Any] = [value["permutation_Q_js"], value.get("reflection_Q_js")]
    found = []
    if not all(isinstance(one, list) and one for one in lists) or len(lists[0]) != len(lists[1]):
        sizes = [len(one) if isinstance(one, list) else type(one).__name__ for one in lists]
        raise MetasymError(
            f"{where}: expected as many lists in permutation_Q_js as in reflection_Q_js, "
            f"found {sizes[0]} and {sizes[1]}",
            about=f"{where}: permutation_Q_js, reflection_Q_js",
            found=tuple(sizes),
        )
    for permutation, reflection in zip(*lists, strict=True):
        for what, entries in (("permutation_Q_js", permutation), ("reflection_Q_js", reflection)):
            if not isinstance(entries, list) or len(entries) != len(names):
                size = len(entries) if isinstance(entries, list) else "none"
                raise MetasymError(
                    f"{where}: expected {len(names)} entries of {what}, as joints, found {size}",
                    about=f"{where}: {what}",
                    found=size,
                )
        if any(not isinstance(i, int) or not 0 <= i < len(names) for i in permutation):
            raise MetasymError(
                f"{where}: expected numbers of joints below {len(names)} in permutation_Q_js, found {permutation}",
                about=f"{where}: permutation_Q_js",
                found=permutation,
            )
        found.append(
            _checked([(names[p], names[i], reflection[i]) for i, p in enumerate(permutation)], names, where)
        )
    return found


def _morpho_keys(text: str) -> dict[str, Any] | None:
    """morpho-symm's two lists of lists, from YAML; None where the file has none."""
    bare = "\n".join(line.split("#")[0] for line in text.splitlines())
    found: dict[str, Any] = {}
    for key in ("permutation_Q_js", "reflection_Q_js"):
        at = re.search(rf"^\s*{key}\s*:\s*(?=\[)", bare, re.MULTILINE)
        if at is None:
            return None
        depth, start = 0, at.end()
        for end in range(start, len(bare)):
            depth += {"[": 1, "]": -1}.get(bare[end], 0)
            if depth == 0:
                break
        try:
            found[key] = json.loads(re.sub(r",\s*\]", "]", bare[start : end + 1]))
        except (ValueError, RecursionError):
            return None
    return found


@checked
def to_yaml(found: RobotSymmetries) -> str:
    """Return the generators in morpho-symm's form.

    Args:
        found: What :func:`metasym.mirror` found.
    """
    permutations, reflections = [], []
    for g in found.generators:
        back = g.permutation.inverse
        permutations.append(list(back.inputs))
        reflections.append(list(back.input_signs))
    group = found.group.name
    label = _LABELS.get(group, group.replace("_", "").replace("Z", "C"))
    lines = [
        f"# joints: {', '.join(found.names)}",
        f"name: {Path(found.mechanism.name).stem}",
        f"group_label: {label if found.generators else 'C1'}",
        f"fix_base: {not found.mechanism.floating}",
    ]
    if np.abs(found.centre).max(initial=0.0) > 0:
        q_zero = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, *(round(float(c), 9) for c in found.centre)]
        lines.append(f"q_zero: {json.dumps(q_zero)}")
    for g in found.generators:
        lines.append(f"# {g.base}: {g.status}, defect at most {g.defect_upper:.2g} (95 %)")
    lines += [f"permutation_Q_js: {json.dumps(permutations)}", f"reflection_Q_js: {json.dumps(reflections)}"]
    return "\n".join(lines) + "\n"


def as_permutation(table: JointTable, names: Sequence[str], rest: SignedPermutation) -> SignedPermutation:
    """The table as a signed permutation; joints that it does not name as ``rest`` has them."""
    number = {name: i for i, name in enumerate(names)}
    images, signs = list(rest.inputs), list(rest.input_signs)
    for joint, (image, sign) in table.moves.items():
        images[number[joint]], signs[number[joint]] = number[image], sign
    return SignedPermutation.of(images, images, signs, signs)
