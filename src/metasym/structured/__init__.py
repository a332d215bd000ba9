"""From a found symmetry to a fast layer: structure that was read is computed with."""

from metasym.structured.compilation import LayerPlan, StructurePlan, structure_plan, structured

__all__ = ["LayerPlan", "StructurePlan", "structure_plan", "structured"]
