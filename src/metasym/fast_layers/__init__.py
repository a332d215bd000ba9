"""From a found symmetry to a fast layer: structure that was read is computed with."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
