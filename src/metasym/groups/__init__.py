"""Finite groups, their representations, and the weights that are equivariant to them.

A :class:`Group` is a multiplication table with matrices ``pi(g)``. :func:`symmetry_matrix` is U^G of
Proposition 1, :func:`equivariant_basis` every equivariant linear map between two representations, and
:func:`conv_basis` every steerable convolution kernel. A :class:`LieAlgebra` stands for a
continuous group; :func:`equivariant_basis` takes two of them as well. Each is a
symmetry matrix U: its columns span the weights that the symmetry allows, ``vec(W) = U v``.
"""

from metasym.groups.bases import equivariant_basis, symmetry_matrix
from metasym.groups.constructors import (
    cyclic,
    dihedral,
    direct_product,
    quaternion,
    shifts,
    symmetric,
    trivial,
)
from metasym.groups.generators import from_generators
from metasym.groups.group import Group
from metasym.groups.images import image_rotations, image_rotations_flips
from metasym.groups.lie_algebra import LieAlgebra, so
from metasym.groups.lie_names import name_of_algebra
from metasym.groups.steerable import KernelBasis, conv_basis

__all__ = [
    "Group",
    "KernelBasis",
    "LieAlgebra",
    "conv_basis",
    "cyclic",
    "dihedral",
    "direct_product",
    "equivariant_basis",
    "from_generators",
    "image_rotations",
    "image_rotations_flips",
    "name_of_algebra",
    "quaternion",
    "shifts",
    "so",
    "symmetric",
    "symmetry_matrix",
    "trivial",
]
