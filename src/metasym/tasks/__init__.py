"""Families of tasks: the paper's problems, a user's own arrays and images, and how episodes are drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
