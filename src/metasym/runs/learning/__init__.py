"""``metasym learn``: the symmetry of a user's own tasks, beside MAML as the baseline."""
