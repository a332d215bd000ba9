"""What `make docs` needs besides mkdocs: hooks, the check of the built site, and the pages of the examples."""
