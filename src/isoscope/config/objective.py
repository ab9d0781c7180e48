"""The section `objective`: the training objective."""

from typing import Literal

from isoscope.config.base import Section


class ClassificationObjective(Section):
    """Classification of a sentence or pair, trained with cross-entropy."""

    kind: Literal["classification"]


METRICS = {"classification": ("loss", "accuracy", "f1", "matthews")}
"""Metrics of each built-in objective; a plugin's metrics are known when the plugin is built."""
