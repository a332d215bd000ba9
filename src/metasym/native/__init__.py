"""C++ sources compiled on first use: how they become functions, whoever they belong to."""
