"""Whole runs, from data to files and back: ``metasym learn``, ``run``, ``discover`` and ``ms.train``."""
