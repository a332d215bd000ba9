"""Results as tables and figures; reads the files that runs wrote."""
