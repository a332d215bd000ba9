"""vec(W) = U v: symmetry matrices, and how they get into a model and out of it again."""
