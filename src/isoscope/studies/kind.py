"""The optional parts of a study: for each of its `looks`, the views and the folders of tables and figures."""

from typing import NamedTuple

from isoscope.paths import CHART, CHARTS, FIGURES, INSIDE
from isoscope.studies import fusion, isotropy
from isoscope.studies.view import View


class Kind(NamedTuple):
    """A kind of study: its views in the report's order, and the folders of their tables and figures."""

    views: tuple[View, ...]
    tables: str
    figures: str


KINDS = {"inside": Kind(fusion.VIEWS, INSIDE, FIGURES), "chart": Kind(isotropy.VIEWS, CHART, CHARTS)}
"""By name in a study's `looks`."""
