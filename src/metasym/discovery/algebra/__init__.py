"""Vector fields and the algebras they span: what exists without data."""
