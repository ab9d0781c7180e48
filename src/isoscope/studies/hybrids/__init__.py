"""Comparisons of hybrids: an encoder aligned to the encoder of a translation model, before its decoder."""

QUESTION = "Does an aligned encoder translate, and which similarity says so beforehand?"
