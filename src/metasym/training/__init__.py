"""The outer loop with its checkpoints, processes, signals and progress."""
