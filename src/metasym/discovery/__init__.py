"""Symmetries of fitted functions, whatever model fits them: found on some data, then built in."""
