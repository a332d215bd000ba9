"""Finite symmetries of one function: search for signed permutations, certify the group that they generate."""
