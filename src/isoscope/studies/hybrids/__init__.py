"""Hybrids compared: what is asked, and the views of the tables of `hybrid_tables`."""

from isoscope.studies.hybrids import hybrid_figures

QUESTION = "Does an aligned encoder translate, and which similarity says so beforehand?"
VIEWS = hybrid_figures.VIEWS
