"""The measures of a cell, by name: each a function of a `Cell` that returns its figures by name.

A figure is a number, or an `Estimate` over the cell's subsamples. A measure of one's own is registered by a plugin file
(`isoscope.plugins.measure`) and then stands beside these.
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
"""Of the maximum likelihood dimension: few enough for subsamples of 16 points."""

Figures = Mapping[str, float | Estimate]
Measure = Callable[[Cell], Figures]


def anisotropy(cell: Cell) -> Figures:
    """a_1 … a_3 raw, centred and within classes, a_1 of each at a fixed n, the share of variance between classes."""
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

    Partition isotropy hangs on the scale of the points: they are brought to a root mean squared length of √d, that of
    the noise beside them, so that layers can be compared.
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
    """AvgSim over pairs of different sentences; of words also SelfSim and IntraSim, as published and leave-one-out."""
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
    except InputError:  # so many points coincide that there are no neighbours
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
    """How far apart the classes are: silhouette, Fisher ratio, centroid distance, held-out linear separability."""
    if cell.labels is None:
        return {}
    return {
        "silhouette": separation.silhouette(cell.points, cell.labels),
        "fisher_ratio": separation.fisher_ratio(cell.points, cell.labels),
        "centroid_distance": separation.centroid_distance(cell.points, cell.labels),
        "linear_separability": separation.linear_separability(cell.points, cell.labels, seed=cell.seed),
    }


def shape(cell: Cell) -> Figures:
    """Clusters and what they are made of (AMI with label and nuisances, intervals over sentences); whether PC2 is a
    parabola of PC1, and p.
    """
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
    """The measure called `name`, built in or a plugin's. Raises `InputError` where there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in plugins.MEASURES:
        return partial(_of_plugin, plugins.MEASURES[name])
    known = [*BUILT_IN, *plugins.MEASURES]
    raise InputError(
        f"measures.names: no measure {name!r}{nearest(name, known)}; one of one's own is loaded as a plugin"
    )


def _of_plugin(plugin: plugins.Plugin, cell: Cell) -> Figures:
    """The figures of a plugin's measure. Raises `RunError` for what is no mapping of names to numbers."""
    found = plugin.factory(cell)
    try:
        return {str(name): one if isinstance(one, Estimate) else float(one) for name, one in found.items()}
    except (AttributeError, TypeError, ValueError):
        raise RunError(f"{plugin.title}: gives {brief(found)}; expected {{'figure': number}}") from None
