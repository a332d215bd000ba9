"""The experiments of the catalogue as runs: one of them, a whole table, accuracy over angles."""
