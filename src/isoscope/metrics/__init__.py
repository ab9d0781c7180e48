"""Scores of classifiers: pure functions of a confusion matrix, and the same as a module of the library `evaluate`."""
