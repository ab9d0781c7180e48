"""Measure clouds of representations: pure functions of arrays, without configuration or files.

A cloud is `points` `[n, d]`, one representation per row. Arithmetic is in float64 for any input type. Spectra, CKA,
CCA, RSA and near neighbours of a tensor are computed on its device; other functions copy it to the CPU. `FUNCTIONS`
lists the public functions by name; each module is imported on first use. Several scores share the spectrum of a cloud:

    from isoscope.geometry import anisotropy, effective_rank, isoscore, participation_ratio, spectrum, two_nn
    anisotropy(points), two_nn(points)                                        # of a cloud
    effective_rank(spectrum(points))                                          # of its spectrum
    isoscore(participation_ratio(spectrum(points)), points.shape[1])

The package itself is callable: `isoscope.geometry(model, texts)` is `isoscope.notebook.geometry`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

FUNCTIONS = {
    "linear_maps": ("decodability", "procrustes", "retrieval", "ridge"),
    "attention": ("summarise", "head_agreement"),
    "contextuality": ("avg_sim", "intra_sim", "mev", "neighbour_shares", "self_sim"),
    "dimension": ("two_nn", "mle"),
    "isotropy": (
        *("anisotropy", "effective_rank", "isoscore", "isotropic_floor", "participation_ratio"),
        *("partition_isotropy", "shares", "unbiased_participation_ratio"),
    ),
    "kernels": ("kernel_energy", "frequency_response"),
    "moments": ("between_share", "spectrum", "within_classes"),
    "neighbour_similarity": ("RSA", "Neighbours"),
    "persistence": ("bottleneck", "diagrams", "h0_bars", "persistent_entropy", "wasserstein"),
    "probes": ("learning_curve", "linear_probe", "online_code_length", "ridge_probe"),
    "separation": (
        "ami_interval",
        "arch_score",
        "centroid_distance",
        "clusters",
        "fisher_ratio",
        "linear_separability",
        "silhouette",
    ),
    "similarity": ("CCA", "CKA", "HeldOutCCA", "PWCCA", "Procrustes", "SVCCA"),
    "sts": ("spearman_of_cosines",),
    "transforms": ("all_but_the_top", "centred", "standardised", "whitened"),
}
"""Public functions by module, except `kernels.fourier` and `planes.planes`: they share the name of a module."""
_HOMES = {name: module for module, names in FUNCTIONS.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a measure from its module."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Callable(ModuleType):
    """A package that is also a function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        # The notebook builds on this package, so import it only on use.
        return import_module("isoscope.notebook").geometry(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
