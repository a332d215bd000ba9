"""From a found symmetry to a fast layer: structure that was read is computed with."""
