"""Symmetries of a function that can be called: candidates from calls, and every claim checked by calls."""
