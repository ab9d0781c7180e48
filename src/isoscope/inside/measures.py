"""The measures of a cell by name: each is a function of a `Cell` that returns its metrics by name.

A metric is a number, or an `Estimate` over the cell's subsamples. A plugin file can register a custom measure
(`isoscope.plugins.measure`).
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from isoscope import plugins
from isoscope.config.explain import nearest
from isoscope.errors import InputError, RunError, brief
from isoscope.geometry import contextuality, dimension, isotropy, moments, persistence, separation
from isoscope.geometry.dimension import Estimate
from isoscope.inside.cloud import Cell, OfAll

NEIGHBOURS = 10
"""Neighbours of the maximum likelihood dimension: few enough for subsamples of 16 points."""

Figures = Mapping[str, float | Estimate]
Measure = Callable[[Cell], Figures]


def anisotropy(cell: Cell) -> Figures:
    """Anisotropy: a_1 … a_3 raw, centred and within classes, a_1 of each at fixed n, variance share between classes."""
    found: dict[str, float | Estimate] = {}
    spectra = {"": cell.raw, "_centred": cell.centred, "_within": cell.within}
    for suffix, spectrum in spectra.items():
        if spectrum is not None:
            found |= {f"a_{k + 1}{suffix}": float(value) for k, value in enumerate(isotropy.shares(spectrum))}
    if cell.labels is not None:
        found["between_share"] = moments.between_share(cell.points, cell.labels)
    spread: dict[str, list[moments.Floats]] = {"": [], "_centred": [], "_within": []}
    for rows in cell.subsamples:
        few = cell.points[rows]
        spread[""].append(moments.spectrum(few, centred=False))
        spread["_centred"].append(moments.spectrum(few))
        if cell.labels is not None:
            inside = moments.within_classes(few, cell.labels[rows])
            spread["_within"].append(moments.spectrum(inside, centred=False))
    for suffix, several in spread.items():
        if several:
            found[f"a_1{suffix}_at_n"] = cell.spread([float(isotropy.shares(one, 1)[0]) for one in several])
    found["a_1_floor"] = isotropy.isotropic_floor(cell.n, cell.d)
    return found


def isoscore(cell: Cell) -> Figures:
    """IsoScore and participation ratio, plug-in and unbiased, effective rank and partition isotropy (in logs).

    Partition isotropy depends on the scale of the points. So they are scaled to a root mean squared length of √d, that
    of the noise baseline, which makes layers comparable.
    """
    size = np.sqrt((cell.points**2).mean()) or 1.0
    plug_in, unbiased = isotropy.participation_ratio(cell.centred), isotropy.unbiased_participation_ratio(cell.points)
    return {
        "participation_ratio": plug_in,
        "participation_ratio_unbiased": unbiased,
        "isoscore": isotropy.isoscore(plug_in, cell.d),
        "isoscore_unbiased": isotropy.isoscore(unbiased, cell.d),
        "effective_rank": isotropy.effective_rank(cell.centred),
        "log_partition_isotropy": isotropy.partition_isotropy(cell.points / size),
    }


def similarity(cell: Cell) -> Figures:
    """AvgSim over pairs of different sentences; for words also SelfSim and IntraSim, as published and leave-one-out."""
    found: dict[str, float | Estimate] = {"avg_sim": contextuality.avg_sim(cell.points, cell.groups)}
    if cell.names is not None:
        intra = contextuality.intra_sim(cell.points, cell.groups)
        found |= {
            "self_sim": contextuality.self_sim(cell.points, cell.names),
            "intra_sim": intra.published,
            "intra_sim_left_out": intra.leave_one_out,
        }
    return found


def intrinsic(cell: Cell) -> Figures:
    """Intrinsic dimension by TwoNN and by maximum likelihood: of the whole cloud, and at a fixed n with an interval."""
    try:
        whole = dimension.near_distances(cell.points, NEIGHBOURS)
        parts = [dimension.near_distances(cell.points[rows], NEIGHBOURS) for rows in cell.subsamples]
    except InputError:  # so many points coincide that there are too few neighbours
        return dict.fromkeys(("two_nn", "two_nn_at_n", "mle", "mle_at_n"), float("nan"))
    return {
        "two_nn": dimension.two_nn_of(whole),
        "two_nn_at_n": cell.spread([dimension.two_nn_of(near) for near in parts]),
        "mle": dimension.mle_of(whole),
        "mle_at_n": cell.spread([dimension.mle_of(near) for near in parts]),
    }


def homology(cell: Cell) -> Figures:
    """Persistent entropy of the H0 bars at a fixed n (nats), and as a share of ln(bars)."""
    bars = max(2, min(cell.subsample, cell.n) - 1)

    def entropy(points: moments.Floats) -> float:
        return persistence.persistent_entropy(persistence.h0_bars(points))

    found = cell.at_fixed_n(entropy)
    return {"h0_entropy": found, "h0_entropy_share": Estimate(*(value / float(np.log(bars)) for value in found))}


def classes(cell: Cell) -> Figures:
    """Class separation: silhouette, Fisher ratio, centroid distance, held-out linear separability."""
    if cell.labels is None:
        return {}
    return {
        "silhouette": separation.silhouette(cell.points, cell.labels),
        "fisher_ratio": separation.fisher_ratio(cell.points, cell.labels),
        "centroid_distance": separation.centroid_distance(cell.points, cell.labels),
        "linear_separability": separation.linear_separability(cell.points, cell.labels, seed=cell.seed),
    }


def shape(cell: Cell) -> Figures:
    """Clusters and their AMI with label and nuisances (intervals over sentences); is PC2 a parabola of PC1?"""
    if cell.names is not None:
        return {}
    attributes = dict(cell.attributes) | ({} if cell.labels is None else {"label": cell.labels})
    leading = separation.principal_scores(cell.points)
    clusters = separation.clusters(cell.points, {}, seed=cell.seed, scores=leading)
    ami = {
        name: OfAll(*separation.ami_interval(clusters.of, of, confidence=cell.confidence, seed=cell.seed))
        for name, of in attributes.items()
    }
    arch = separation.arch_score(cell.points, along=cell.attributes.get("length"), seed=cell.seed, scores=leading)
    return {
        "clusters": float(clusters.k),
        "clusters_silhouette": clusters.silhouette,
        **{f"clusters_ami_{name}": value for name, value in ami.items()},
        "arch_score": arch.r2,
        "arch_score_null": arch.null,
        "arch_score_p": arch.p,
    }


BUILT_IN: dict[str, Measure] = {
    "anisotropy": anisotropy,
    "isoscore": isoscore,
    "similarity": similarity,
    "intrinsic": intrinsic,
    "homology": homology,
    "classes": classes,
    "shape": shape,
}


def measure(name: str) -> Measure:
    """Return the measure called `name`, built in or a plugin's. Raises `InputError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in plugins.MEASURES:
        return partial(_of_plugin, plugins.MEASURES[name])
    known = [*BUILT_IN, *plugins.MEASURES]
    raise InputError(
        f"measures.names: no measure {name!r}{nearest(name, known)}; a custom measure must be loaded as a plugin"
    )


def _of_plugin(plugin: plugins.Plugin, cell: Cell) -> Figures:
    """Return the values of a plugin's measure. Raises `RunError` if they are not a mapping of names to numbers."""
    found = plugin.factory(cell)
    try:
        return {str(name): one if isinstance(one, Estimate) else float(one) for name, one in found.items()}
    except (AttributeError, TypeError, ValueError):
        raise RunError(f"{plugin.title}: returns {brief(found)}; expected {{'figure': number}}") from None
