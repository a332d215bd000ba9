"""One dense linear layer with the squared loss: the meta-gradient as products of matrices."""
