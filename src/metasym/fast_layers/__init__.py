"""From a found symmetry to a fast layer: structure that was read is computed with."""

from metasym.fast_layers.compilation import StructurePlan, structure_plan
from metasym.fast_layers.deployment import StructuredLearner, structured
from metasym.fast_layers.layer_plan import LayerPlan

__all__ = ["LayerPlan", "StructurePlan", "StructuredLearner", "structure_plan", "structured"]
