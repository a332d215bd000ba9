"""Functions fitted to examples: Gaussian processes and polynomials, plain or with a symmetry built in."""
