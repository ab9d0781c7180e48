"""Kinds of study: what each compares, and the views that show it."""
