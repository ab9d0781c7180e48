"""Analyse trained models from the inside: hidden states on disk, and a table per analysis."""
