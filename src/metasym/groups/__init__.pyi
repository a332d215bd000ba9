from .bases import equivariant_basis as equivariant_basis, symmetry_matrix as symmetry_matrix
from .constructors import (
    cyclic as cyclic,
    dihedral as dihedral,
    direct_product as direct_product,
    quaternion as quaternion,
    shifts as shifts,
    symmetric as symmetric,
    trivial as trivial,
)
from .generators import from_generators as from_generators
from .group import Group as Group
from .images import image_rotations as image_rotations, image_rotations_flips as image_rotations_flips
from .lie_algebra import LieAlgebra as LieAlgebra, so as so
from .lie_names import name_of_algebra as name_of_algebra
from .steerable import KernelBasis as KernelBasis, conv_basis as conv_basis
