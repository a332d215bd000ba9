"""How state becomes files: sealed, written whole or not at all, locked while in use."""
