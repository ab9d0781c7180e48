"""Functions that draw figures: a table in, a matplotlib Figure out."""
