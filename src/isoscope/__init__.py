"""isoscope: tracked experiments on the geometry of transformer representations."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`isoscope.load` and `isoscope.geometry`, imported when first asked for: `import isoscope` costs nothing."""
    if name == "load":
        from isoscope.notebook import load

        return load
    if name == "geometry":  # a package that can be called, see there
        import isoscope.geometry

        return isoscope.geometry
    raise AttributeError(f"module 'isoscope' has no attribute {name!r}")
