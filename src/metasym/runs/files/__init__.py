"""What the files of a run may hold: descriptions, checked when a file is read. Nothing here trains."""
