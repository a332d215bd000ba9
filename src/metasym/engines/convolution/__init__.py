"""One convolution with the squared loss: from the second moments of its patches."""
