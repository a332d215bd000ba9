"""From a found symmetry to a fast layer: structure that was read is computed with."""

from metasym.structured.compilation import StructurePlan, structure_plan
from metasym.structured.deployment import StructuredLearner, structured
from metasym.structured.layer_plan import LayerPlan

__all__ = ["LayerPlan", "StructurePlan", "StructuredLearner", "structure_plan", "structured"]
