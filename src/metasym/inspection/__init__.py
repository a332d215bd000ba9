"""What was learned: which entries of W are tied, by which group, and how certain that is.

Everything is read from U U^T, never from U's entries: U and U R for an orthogonal R are the same symmetry.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
