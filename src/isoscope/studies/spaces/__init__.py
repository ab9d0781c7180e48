"""Comparisons of the spaces of several models, on the same words (Vázquez et al. 2021)."""

QUESTION = "How alike are the spaces of these models?"
