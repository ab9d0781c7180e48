"""Classifier scores: pure functions of a confusion matrix, and a module of the library `evaluate`."""
