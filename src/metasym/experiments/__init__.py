"""Whole runs from data to result: the paper's experiments, a user's own tasks, and what both share."""
