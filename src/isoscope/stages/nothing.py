"""Write empty outputs for a study that is not explored or charted: DVC expects every output that a stage declares."""

from pathlib import Path

from isoscope import paths
from isoscope.sealing import replacing, write_text

LAYERS = ("figure", "arm", "layer", "step", "mean", "sd", "n")
"""Columns of `layers.csv`."""
_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="60">'
    '<text x="12" y="35" font-family="sans-serif" font-size="14">No runs to show</text></svg>\n'
)


def look_at_nothing(project: paths.Project, tables: Path, drawn: Path, layers: Path | None = None) -> None:
    """Write an empty folder for tables, a folder of figures with a single notice, and a table without rows."""
    with replacing(project.folder / tables, "table"), replacing(project.folder / drawn, "table") as shown:
        write_text(shown / "nothing.svg", _PICTURE, "table")
    if layers is not None:
        write_text(project.folder / layers, ",".join(LAYERS) + "\n", "table")
