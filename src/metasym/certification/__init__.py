"""Claims tested on held-out tasks: refuted or not, and the largest defect left."""

from metasym.certification.certificate import Certificate, certify
from metasym.groups.signed_permutations import SignedPermutation

__all__ = ["Certificate", "SignedPermutation", "certify"]
