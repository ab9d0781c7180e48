"""From tables and records to one HTML page that needs nothing beside itself."""

from isoscope.report.page import build
from isoscope.report.runs import read_records

__all__ = ["build", "read_records"]
