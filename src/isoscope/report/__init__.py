"""Build an HTML page from tables and run records; large tables are files next to it."""

from isoscope.report.overview import summary
from isoscope.report.page import build
from isoscope.report.runs import read_records

__all__ = ["build", "read_records", "summary"]
