"""isoscope: tracked experiments on the geometry of transformer representations."""

from importlib import import_module
from typing import Any

from isoscope import renamed

__version__ = "0.1.0"

renamed.install()


def __getattr__(name: str) -> Any:
    """Import `isoscope.load` and `isoscope.geometry` on first access, so that `import isoscope` is fast."""
    if name == "load":
        return import_module("isoscope.notebook").load
    if name == "geometry":  # a callable package, see its __init__
        return import_module("isoscope.geometry")
    raise AttributeError(f"module 'isoscope' has no attribute {name!r}")
