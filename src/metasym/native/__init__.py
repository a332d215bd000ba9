"""How the C++ sources of any room are compiled on first use and become functions."""
