"""A robot's file, whichever form it has."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from metasym.argument_types import checked
from metasym.robots.mechanism import Mechanism
from metasym.robots.mjcf import read_mjcf
from metasym.robots.urdf import read_urdf
from metasym.storage.plain_files import read_plain
from metasym.types import MetasymError


@checked
def read_robot(path: str | Path, *, floating: bool | None = None) -> Mechanism:
    """Read the mechanism in a URDF file, or in MuJoCo's XML (which needs ``pip install metasym[robots]``).

    Args:
        path: The file.
        floating: Whether the base moves freely. Default: decided by the file.
    """
    file = Path(path)
    try:
        data = read_plain(file)
    except OSError as error:
        raise MetasymError(
            f"{file}: expected a robot's description, found {error.strerror}",
            about=str(file),
            found=error.strerror,
        ) from None
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError) as error:
        raise MetasymError(
            f"{file}: expected a robot's description (XML), found {error}", about=str(file), found=str(error)
        ) from None
    kind = root.tag.rpartition("}")[2]
    if kind == "robot":
        return read_urdf(root, file, floating)
    if kind == "mujoco":
        return read_mjcf(file, floating)
    raise MetasymError(
        f"{file}: expected <robot> (URDF) or <mujoco>, found <{kind}>", about=str(file), found=kind
    )
