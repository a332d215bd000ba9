"""What can be seen in the data before anything is trained, in words."""
