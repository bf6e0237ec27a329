"""droptics: what dropout does to a model, exactly.

The public names are listed in `__init__.pyi` and loaded when first used, so that `import droptics` and
`droptics --help` answer at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
