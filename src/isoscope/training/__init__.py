"""Optimise a model, watch it, keep it, and go on from where it stopped."""
