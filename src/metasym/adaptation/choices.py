"""The names of what a user may choose about adaptation and how it is computed."""

SOLVERS = ("sgd", "ridge", "cg")
"""How the inner problem is solved."""
STEP_SIZES = ("fixed", "layer", "parameter", "layer-step")
"""Which inner step sizes are learned."""
AUTO = "auto"
"""Ways of computing a step: by a cost model."""
