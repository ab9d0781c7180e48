"""Build an HTML page from tables and run records; large tables are files next to it."""

from isoscope.platform.report.overview import summary
from isoscope.platform.report.page import build
from isoscope.platform.report.runs import read_records

__all__ = ["build", "read_records", "summary"]
