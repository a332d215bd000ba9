"""``metasym discover``: symmetries of functions, from data to verdict and model. Resumable."""
