"""Deep networks: layers differentiated one by one, without a graph through the network."""
