from .compilation import StructurePlan as StructurePlan, structure_plan as structure_plan
from .deployment import StructuredLearner as StructuredLearner, structured as structured
from .layer_plan import LayerPlan as LayerPlan
