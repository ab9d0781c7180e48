"""Build one self-contained HTML page from tables and run records."""

from isoscope.report.overview import lines
from isoscope.report.page import build
from isoscope.report.runs import read_records

__all__ = ["build", "lines", "read_records"]
