"""The section `objective`: what a model is trained for."""

from typing import Literal

from isoscope.config.base import Section


class ClassificationObjective(Section):
    """One label per sentence or pair: cross-entropy of a classifier."""

    kind: Literal["classification"]


METRICS = {"classification": ("loss", "accuracy", "f1", "matthews")}
"""Metrics that each built-in objective declares; a plugin's are known when it is built."""
