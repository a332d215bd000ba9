"""From a found symmetry to a fast layer: structure that was read is computed with."""

from metasym.structured.compilation import StructurePlan, structure_plan, structured
from metasym.structured.layer_plan import LayerPlan

__all__ = ["LayerPlan", "StructurePlan", "structure_plan", "structured"]
