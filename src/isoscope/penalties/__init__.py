"""Penalties on the geometry of representations, for any training loop: `loss + penalty(points, labels).penalty`.

Each is a module without parameters; called with `points` `[n, d]` of one effective batch and, where it looks at classes
apart, their `labels` `[n]`, it returns a named tuple whose first field is the scalar to add to a loss, its weight
included. The other fields say how it came about.
"""

from isoscope.penalties.cosine import CosineRegularization, CosineTerms
from isoscope.penalties.isoscore import IsoScoreStar, IsoScoreTerms
from isoscope.penalties.persistent_entropy import PersistentEntropy, PersistentEntropyTerms
from isoscope.penalties.spectrum import SpectrumControl, SpectrumTerms

__all__ = [
    "CosineRegularization",
    "CosineTerms",
    "IsoScoreStar",
    "IsoScoreTerms",
    "PersistentEntropy",
    "PersistentEntropyTerms",
    "SpectrumControl",
    "SpectrumTerms",
]
