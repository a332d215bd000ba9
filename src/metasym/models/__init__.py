"""The paper's networks as plain modules: single layers, the conv nets of few-shot learning, the D_8 net."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
