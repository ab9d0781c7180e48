"""isoscope: tracked experiments on the geometry of transformer representations.

    isoscope.load("fusion")             # a study: its `tables` and `views`, `table(name)`, `view(name)`
    isoscope.geometry(model, texts)     # measures of any model's hidden states, or of vectors
    isoscope.spaces(arrays)             # two or more spaces compared
    isoscope.geometry                   # a package of functions of arrays
    isoscope.penalties                  # terms of a loss

The command line: isoscope --help.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `load`, `spaces` and `geometry` on first access, so that `import isoscope` is fast."""
    if name in ("load", "spaces"):
        return getattr(import_module("isoscope.notebook"), name)
    if name == "geometry":  # a callable package, see its __init__
        return import_module("isoscope.geometry")
    raise AttributeError(f"module 'isoscope' has no attribute {name!r}")
