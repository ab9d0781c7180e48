"""The measures of a cell by name.

A measure is a function of a `Cell` that returns its metrics by name. A metric is a number, or an `Estimate` over the
cell's subsamples. Each measure declares its metrics and what figures show of them; corrected for chance or for n, or
held out, a metric can be slightly below its lowest value. A plugin file can register a custom measure
(`isoscope.plugins.measure`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from isoscope import plugins
from isoscope.base.entry import Entry
from isoscope.base.errors import InputError, RunError, brief
from isoscope.base.metric import Metric, Shown
from isoscope.geometry import contextuality, dimension, isotropy, moments, persistence
from isoscope.geometry.dimension import Estimate
from isoscope.platform.config.explain import nearest
from isoscope.states.cloud import Cell, OfAll

NEIGHBOURS = 10
"""Neighbours of the maximum likelihood dimension: few enough for subsamples of 16 points."""

SHARE: dict[str, Any] = {"low": 0.0, "high": 1.0}
SIGNED: dict[str, Any] = {"low": -1.0, "high": 1.0}
SHARES = {
    "a_1": Shown("Isotropy", compared=True),
    "a_1_centred": Shown("Isotropy", compared=True, maps=("first",)),
    "a_1_within": Shown("Isotropy", over_training=True),
    "between_share": Shown("Isotropy"),
}
"""What figures show of the metrics that `geometry.isotropy` declares."""
DIMENSION = ("two_nn", "two_nn_at_n", "mle", "mle_at_n", "repeated_share", "close_share")

Figures = Mapping[str, float | Estimate]
Measure = Callable[[Cell], Figures]


@plugins.measure(
    "anisotropy",
    (
        *(one._replace(shown=SHARES.get(one.name, one.shown)) for one in isotropy.METRICS),
        *(
            Metric(
                f"a_1{means}_at_n",
                "Share of the first direction (a₁"
                + {"": ")", "_centred": ", mean removed)", "_within": ", class means removed)"}[means]
                + ", at equal n",
                **SHARE,
                shown=Shown("" if means else "Isotropy"),
            )
            for means in isotropy.MEANS
        ),
        Metric("a_1_floor", "Share of the first direction (a₁) in noise", **SHARE),
    ),
)
def anisotropy(cell: Cell) -> Figures:
    """Anisotropy: a_1 … a_3 raw, centred and within classes, a_1 of each at fixed n, variance share between classes."""
    spectra = {"": cell.raw, "_centred": cell.centred} | ({} if cell.within is None else {"_within": cell.within})
    found: dict[str, float | Estimate] = {
        f"a_{k + 1}{suffix}": float(value)
        for suffix, spectrum in spectra.items()
        for k, value in enumerate(isotropy.shares(spectrum))
    }
    if cell.labels is not None:
        found["between_share"] = moments.between_share(cell.moved, cell.labels)
    first: dict[str, list[float]] = {suffix: [] for suffix in spectra}
    for rows in cell.subsamples:
        few = cell.moved[rows]
        clouds = {"": few, "_centred": moments.centre(few)}
        if cell.labels is not None:
            clouds["_within"] = moments.within_classes(few, cell.labels[rows])
        for suffix, cloud in clouds.items():
            first[suffix].append(float(isotropy.shares(moments.spectrum(cloud, centred=False), 1)[0]))
    found |= {f"a_1{suffix}_at_n": cell.spread(values) for suffix, values in first.items()}
    found["a_1_floor"] = isotropy.isotropic_floor(cell.n, cell.d)
    return found


@plugins.measure(
    "isoscore",
    (
        Metric("isoscore", "IsoScore", **SHARE),
        Metric(
            "isoscore_unbiased",
            "IsoScore, unbiased",
            **SHARE,
            shown=Shown("Isotropy", over_training=True, compared=True),
        ),
        Metric(
            "effective_rank", "Effective rank", "dimensions", shown=Shown("Isotropy", over_training=True, compared=True)
        ),
        Metric("participation_ratio", "Participation ratio", "dimensions"),
        Metric("participation_ratio_unbiased", "Participation ratio, unbiased", "dimensions", shown=Shown("Isotropy")),
        Metric("log_partition_isotropy", "Log of partition isotropy", shown=Shown("Isotropy")),
    ),
)
def isoscore(cell: Cell) -> Figures:
    """IsoScore and participation ratio, plug-in and unbiased, effective rank and partition isotropy (in logs).

    Partition isotropy depends on the scale of the points. So they are scaled to a root mean squared length of √d, that
    of the noise baseline, which makes layers comparable.
    """
    size = np.sqrt((cell.points**2).mean()) or 1.0
    plug_in, unbiased = isotropy.participation_ratio(cell.centred), isotropy.unbiased_participation_ratio(cell.moved)
    return {
        "participation_ratio": plug_in,
        "participation_ratio_unbiased": unbiased,
        "isoscore": isotropy.isoscore(plug_in, cell.d),
        "isoscore_unbiased": isotropy.isoscore(unbiased, cell.d),
        "effective_rank": isotropy.effective_rank(cell.centred),
        "log_partition_isotropy": isotropy.partition_isotropy(cell.points / size),
    }


@plugins.measure(
    "similarity",
    (
        Metric(
            "avg_sim",
            "Mean cosine, points of different sentences",
            **SIGNED,
            shown=Shown("Similarity", compared=True, maps=("first", "words")),
        ),
        Metric(
            "self_sim",
            "Mean cosine of a word with itself in other sentences",
            **SIGNED,
            shown=Shown("Similarity", maps=("words",)),
        ),
        Metric("intra_sim", "Mean cosine of a word with its sentence", **SIGNED),
        Metric(
            "intra_sim_left_out",
            "Mean cosine of a word with the rest of its sentence",
            **SIGNED,
            shown=Shown("Similarity"),
        ),
    ),
)
def similarity(cell: Cell) -> Figures:
    """AvgSim over pairs of different sentences; for words also SelfSim and IntraSim, as published and leave-one-out."""
    found: dict[str, float | Estimate] = {"avg_sim": contextuality.avg_sim(cell.points, cell.groups)}
    if cell.names is not None:
        intra = contextuality.intra_sim(cell.points, cell.groups)
        found |= {
            "self_sim": contextuality.self_sim(cell.points, cell.names, cell.groups),
            "intra_sim": intra.published,
            "intra_sim_left_out": intra.leave_one_out,
        }
    return found


@plugins.measure(
    "intrinsic",
    (
        Metric("two_nn", "Intrinsic dimension (two neighbours)"),
        Metric(
            "two_nn_at_n",
            "Intrinsic dimension (two neighbours), at equal n",
            shown=Shown("Dimension and topology", compared=True),
        ),
        Metric("mle", "Intrinsic dimension (likelihood)"),
        Metric("mle_at_n", "Intrinsic dimension (likelihood), at equal n", shown=Shown("Dimension and topology")),
        Metric("repeated_share", "Share of points that nearly repeat another point", **SHARE),
        Metric("close_share", "Share of points far closer to another than usual", **SHARE),
    ),
)
def intrinsic(cell: Cell) -> Figures:
    """Intrinsic dimension by TwoNN and by maximum likelihood: of the whole cloud, and at a fixed n with an interval.

    Beside them stands the share of the points that they leave out, because each (nearly) repeats another point, and the
    share of the others that lie far closer to another than is usual: such pairs pull the estimates down.
    """
    try:
        whole = dimension.places(cell.moved, NEIGHBOURS)
        parts = [dimension.places(cell.moved[rows], NEIGHBOURS).near for rows in cell.subsamples]
    except InputError:  # so many points coincide that there are too few neighbours
        return dict.fromkeys(DIMENSION, float("nan"))
    return {
        "two_nn": dimension.two_nn_of(whole.near),
        "two_nn_at_n": cell.spread([dimension.two_nn_of(near) for near in parts]),
        "mle": dimension.mle_of(whole.near),
        "mle_at_n": cell.spread([dimension.mle_of(near) for near in parts]),
        "repeated_share": whole.repeated,
        "close_share": whole.close,
    }


@plugins.measure(
    "homology",
    (
        Metric("h0_entropy", "Persistent entropy", "nats"),
        Metric(
            "h0_entropy_share",
            "Persistent entropy, share of its maximum",
            **SHARE,
            shown=Shown("Dimension and topology"),
        ),
    ),
)
def homology(cell: Cell) -> Figures:
    """Persistent entropy of the H0 bars at a fixed n (nats), and as a share of ln(bars)."""
    most = float(np.log(max(2, min(cell.subsample, cell.n) - 1)))
    found = cell.at_fixed_n(lambda points: persistence.persistent_entropy(persistence.h0_bars(points)))
    return {"h0_entropy": found, "h0_entropy_share": Estimate(*(value / most for value in found))}


@plugins.measure(
    "classes",
    (
        Metric(
            "linear_separability",
            "Held-out accuracy of a linear classifier",
            **SHARE,
            shown=Shown("Classes", over_training=True, compared=True, maps=("first",)),
        ),
        Metric(
            "silhouette", "Silhouette of the classes", **SIGNED, shown=Shown("Classes", compared=True, maps=("first",))
        ),
        Metric(
            "fisher_ratio", "Fisher ratio: variance between / within classes", shown=Shown("Classes", compared=True)
        ),
        Metric("centroid_distance", "Distance of class means, in spreads"),
    ),
)
def classes(cell: Cell) -> Figures:
    """Class separation: silhouette, Fisher ratio, centroid distance, held-out linear separability."""
    from isoscope.geometry import separation  # imports scikit-learn, which a drawing of these metrics does not need

    if cell.labels is None:
        return {}
    of, groups = (cell.points, cell.labels), cell.groups
    found = {name: getattr(separation, name)(*of) for name in ("silhouette", "fisher_ratio", "centroid_distance")}
    return found | {"linear_separability": separation.linear_separability(*of, groups=groups, seed=cell.seed)}


@plugins.measure(
    "shape",
    (
        Metric("clusters", "Number of clusters"),
        Metric("clusters_silhouette", "Silhouette of the clusters", **SIGNED, shown=Shown("Shape")),
        Metric(
            "clusters_ami_label", "Agreement of clusters with the label", **SHARE, shown=Shown("Shape", compared=True)
        ),
        Metric("clusters_ami_first_token", "Agreement of clusters with the first token", **SHARE, shown=Shown("Shape")),
        Metric("clusters_ami_second_token", "Agreement of clusters with the second token", **SHARE),
        Metric("clusters_ami_length", "Agreement of clusters with the length", **SHARE, shown=Shown("Shape")),
        Metric(
            "arch_score", "Arch: R² of the second component on a parabola", **SHARE, shown=Shown("Shape", compared=True)
        ),
        Metric("arch_score_null", "Arch: R² with random signs", **SHARE),
        Metric("arch_score_p", "Arch: p value", **SHARE),
    ),
)
def shape(cell: Cell) -> Figures:
    """Clusters and their AMI with label and nuisances (intervals over sentences); is PC2 a parabola of PC1?"""
    from isoscope.geometry import separation

    if cell.names is not None:
        return {}
    attributes = dict(cell.attributes) | ({} if cell.labels is None else {"label": cell.labels})
    leading = separation.principal_scores(cell.points)
    clusters = separation.clusters(cell.points, seed=cell.seed, scores=leading)
    ami = {
        name: OfAll(*separation.ami_interval(clusters.of, of, cell.groups, confidence=cell.confidence, seed=cell.seed))
        for name, of in attributes.items()
    }
    along = attributes.get("length")
    arch = separation.arch_score(cell.points, along=along, groups=cell.groups, seed=cell.seed, scores=leading)
    return {
        "clusters": float(clusters.k),
        "clusters_silhouette": clusters.silhouette,
        **{f"clusters_ami_{name}": value for name, value in ami.items()},
        "arch_score": arch.r2,
        "arch_score_null": arch.null,
        "arch_score_p": arch.p,
    }


def measure(name: str) -> Measure:
    """Return the measure called `name`, built in or a plugin's. Raises `InputError` if there is none."""
    if name not in plugins.MEASURES:
        known = nearest(name, plugins.MEASURES)
        raise InputError(f"measures.names: no measure {name!r}{known}; a custom measure must be loaded as a plugin")
    one = plugins.MEASURES[name]
    return one.factory if one.built_in else partial(_of_plugin, one)


def _of_plugin(plugin: Entry, cell: Cell) -> Figures:
    """Return the values of a plugin's measure. Raises `RunError` if they are not a mapping of names to numbers."""
    found = plugin.factory(cell)
    try:
        return {str(name): one if isinstance(one, Estimate) else float(one) for name, one in found.items()}
    except (AttributeError, TypeError, ValueError):
        raise RunError(f"{plugin.title}: returns {brief(found)}; expected {{'metric': number}}") from None
