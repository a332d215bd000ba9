"""Studies that made the results under ``results/``."""
