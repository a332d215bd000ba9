"""metasym: learn the symmetries that a family of tasks shares, and build them into a network.

The public names are in ``__init__.pyi``, beside this file. Each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
