"""The meta-learners of the paper, all with one interface (``Learner``)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
