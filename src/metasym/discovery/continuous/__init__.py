"""Continuous symmetries of one function: search for an algebra, certify it, name it."""
