"""Finite groups, their representations, and the weights that are equivariant to them.

A :class:`Group` is a multiplication table with matrices ``pi(g)``. :func:`symmetry_matrix` is U^G of
Proposition 1, :func:`equivariant_basis` every equivariant linear map between two representations, and
:func:`conv_basis` every steerable convolution kernel. A :class:`LieAlgebra` stands for a
continuous group; :func:`equivariant_basis` takes two of them as well. Each is a
symmetry matrix U: its columns span the weights that the symmetry allows, ``vec(W) = U v``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
