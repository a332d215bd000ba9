"""Finite symmetries that all functions of a family of tasks share."""
