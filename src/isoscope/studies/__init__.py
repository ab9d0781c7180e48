"""Kinds of study: what is compared, and the views that show it."""
