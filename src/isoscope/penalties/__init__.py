"""Penalties on the geometry of representations, for any training loop: `loss + penalty(points, labels).penalty`.

Each penalty is a module without parameters. Call it with `points` `[n, d]` of one effective batch and, if it separates
classes, their `labels` `[n]`. It returns a named tuple; the first field is the scalar to add to a loss, with its
weight. The other fields are diagnostics.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isoscope.penalties.cosine import CosineRegularization, CosineTerms
    from isoscope.penalties.isoscore import IsoScoreStar, IsoScoreTerms
    from isoscope.penalties.persistent_entropy import PersistentEntropy, PersistentEntropyTerms
    from isoscope.penalties.spectrum import SpectrumControl, SpectrumTerms

# Each module is imported on first use, so that a run records only the penalty that it uses.
_MODULES = {
    "CosineRegularization": "cosine",
    "CosineTerms": "cosine",
    "IsoScoreStar": "isoscore",
    "IsoScoreTerms": "isoscore",
    "PersistentEntropy": "persistent_entropy",
    "PersistentEntropyTerms": "persistent_entropy",
    "SpectrumControl": "spectrum",
    "SpectrumTerms": "spectrum",
}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
