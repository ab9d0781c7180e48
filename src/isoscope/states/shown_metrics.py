"""What figures show of the measures' metrics: declared for the built-in measures; of a plugin's measure, all."""

from typing import TYPE_CHECKING

from isoscope.base.built_in import MEASURES
from isoscope.platform.config.declared import known

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = {name: one.shown for name, one in known().items()}
OVER_TRAINING = tuple(name for name, shown in _SHOWN.items() if shown.over_training)
COMPARED = tuple(name for name, shown in _SHOWN.items() if shown.compared)
MAPS = tuple((name, vectors) for name, shown in _SHOWN.items() for vectors in shown.maps)
"""Metric and kind of representation."""
PROFILES = {
    heading: tuple(name for name, shown in _SHOWN.items() if shown.heading == heading)
    for heading in dict.fromkeys(shown.heading for shown in _SHOWN.values() if shown.heading)
}
"""Heading → metrics by layer."""
OF_PAIRS = {
    "pairs_first": "the first token ([CLS]) of sentences in pairs",
    "pairs_last": "the last token of sentences in pairs",
    "pairs_mean": "the mean over tokens of sentences in pairs",
    "pairs_sentence": "the sentence vector (sentence-transformers) of sentences in pairs",
    "pairs_first_last": "the mean over tokens at layer 1 and the last layer, of sentences in pairs",
}
"""Kinds of vectors of sentences in pairs → their names."""
LEAVES = ("normed", "fused", "word")
"""Parts that can be the embedding block's output: the first that a model has; some have no LayerNorm."""


def paired(geometry: "pd.DataFrame") -> "pd.Series":
    """Return which rows of the table of measures are of pairs of sentences."""
    return geometry["vectors"].isin(OF_PAIRS)


def added(geometry: "pd.DataFrame") -> "pd.Series":
    """Return which rows of the table of measures are of a plugin's measure."""
    return ~geometry["measure"].isin([*MEASURES])
