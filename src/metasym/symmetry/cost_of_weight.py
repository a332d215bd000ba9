"""What one reparameterized weight costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """What a reparameterized weight costs compared with the plain one (Appendix A)."""

    plain_entries: int
    """Entries of W: what the plain layer stores."""
    symmetry_entries: int
    """Entries of U as stored, learned or frozen."""
    filter_entries: int
    """Entries of v."""
    build_multiply_adds: int
    """Multiply-adds to build W from v; the plain layer needs none."""
    element_size: int
    """Bytes of one entry."""

    @property
    def entries(self) -> int:
        """All entries of the reparameterized weight, U and v."""
        return self.symmetry_entries + self.filter_entries

    @property
    def bytes(self) -> int:
        """Bytes of U and v."""
        return self.entries * self.element_size

    @property
    def plain_bytes(self) -> int:
        """Bytes of W."""
        return self.plain_entries * self.element_size

    @property
    def memory_ratio(self) -> float:
        """Entries of U and v for each entry of W: about 3 for square Kronecker factors and m = n."""
        return self.entries / self.plain_entries
