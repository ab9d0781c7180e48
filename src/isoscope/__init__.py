"""isoscope: tracked experiments on the geometry of transformer representations."""

__version__ = "0.1.0"
