"""Orbits and projections against averages over all elements of a group."""

import pytest
import torch

from metasym.groups.signed_groups import weight_orbits
from metasym.groups.signed_permutations import SignedPermutation

TURN = SignedPermutation((1, 2, 3, 0), (1, 2, 3, 0))
SIGNED = SignedPermutation((1, 2, 3, 0), (1, 2, 3, 0), (1, 1, 1, -1), (1, 1, 1, -1))
FLIP = SignedPermutation((0, 1, 2), (1, 0, 2), (1, 1, -1), (1, 1, 1))


def averaged(weights, g):
    """The mean over all powers of g, one after the other."""
    powers, here = [weights], g.on_weights(weights)
    while not torch.equal(here, weights):
        powers.append(here)
        here = g.on_weights(here)
    return torch.stack(powers).mean(0)


@pytest.mark.parametrize(("g", "free"), [(TURN, 4), (SIGNED, 4), (FLIP, 5)])
def test_the_average_over_orbits_is_that_over_the_group(g, free):
    shape = (len(g.outputs), len(g.inputs))
    found = weight_orbits((g,), shape)
    weights = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = averaged(weights, g)
    torch.testing.assert_close(found.average(weights.flatten()).reshape(shape), expected)
    basis, rest = found.basis(), found.complement()
    assert basis.shape[1] == free
    assert found.free == free
    both = torch.cat([basis, rest], 1)
    torch.testing.assert_close(both.T @ both, torch.eye(shape[0] * shape[1], dtype=torch.float64))
    torch.testing.assert_close(basis @ (basis.T @ weights.flatten()), expected.flatten())
