"""Kinds of comparison, as the report and the notebook show them; `compared_tables` has what the stage computes.

To add a kind, add its section to `isoscope.platform.config.comparing`, its views here, and its tables there; the report
stays as it is.
"""

from typing import NamedTuple

from isoscope.studies import hybrids, spaces
from isoscope.studies.view import View


class ComparisonKind(NamedTuple):
    """A kind of comparison."""

    question: str
    """Heading of its section in the report."""
    views: tuple[View, ...]
    """The figures of its tables, in the report's order."""


COMPARISONS = {
    "spaces": ComparisonKind(spaces.QUESTION, spaces.VIEWS),
    "hybrids": ComparisonKind(hybrids.QUESTION, hybrids.VIEWS),
}
