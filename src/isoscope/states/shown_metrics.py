"""What figures show of each measure: declared for the built-in measures; of a plugin's measure, every metric."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


class Shown(NamedTuple):
    """Metrics of a measure by where they stand: on the page of `isoscope geometry`, and in a study's report."""

    group: str
    """Heading of a figure on the page; measures may share it."""
    profile: tuple[str, ...]
    """By layer, on the page."""
    curves: tuple[str, ...] = ()
    """Of [CLS] over training."""
    compared: tuple[str, ...] = ()
    """Of [CLS] at the last layer and the chosen epoch, between arms."""
    maps: tuple[tuple[str, str], ...] = ()
    """By layer and snapshot: metric and kind of representation."""


SHOWN = {
    "anisotropy": Shown(
        "Isotropy",
        ("a_1", "a_1_centred", "a_1_within", "between_share", "a_1_at_n"),
        curves=("a_1_within",),
        compared=("a_1", "a_1_centred"),
        maps=(("a_1_centred", "first"),),
    ),
    "isoscore": Shown(
        "Isotropy",
        ("isoscore_unbiased", "effective_rank", "participation_ratio_unbiased", "log_partition_isotropy"),
        curves=("isoscore_unbiased", "effective_rank"),
        compared=("isoscore_unbiased", "effective_rank"),
    ),
    "similarity": Shown(
        "Similarity",
        ("avg_sim", "self_sim", "intra_sim_left_out"),
        compared=("avg_sim",),
        maps=(("avg_sim", "first"), ("avg_sim", "words"), ("self_sim", "words")),
    ),
    "intrinsic": Shown("Dimension and topology", ("two_nn_at_n", "mle_at_n"), compared=("two_nn_at_n",)),
    "homology": Shown("Dimension and topology", ("h0_entropy_share",)),
    "classes": Shown(
        "Classes",
        ("linear_separability", "silhouette", "fisher_ratio"),
        curves=("linear_separability",),
        compared=("linear_separability", "silhouette", "fisher_ratio"),
        maps=(("linear_separability", "first"), ("silhouette", "first")),
    ),
    "shape": Shown(
        "Shape",
        (
            *("clusters_silhouette", "clusters_ami_label", "clusters_ami_first_token", "clusters_ami_length"),
            "arch_score",
        ),
        compared=("clusters_ami_label", "arch_score"),
    ),
}
"""Built-in measure (see `isoscope.states.measures`) → what figures show of it."""
OVER_TRAINING = tuple(metric for one in SHOWN.values() for metric in one.curves)
COMPARED = tuple(metric for one in SHOWN.values() for metric in one.compared)
MAPS = tuple(place for one in SHOWN.values() for place in one.maps)


def profiles() -> dict[str, tuple[str, ...]]:
    """Return the metrics by layer of each heading."""
    found: dict[str, tuple[str, ...]] = {}
    for one in SHOWN.values():
        found[one.group] = (*found.get(one.group, ()), *one.profile)
    return found


def added(geometry: "pd.DataFrame") -> "pd.Series":
    """Return which rows of the table of measures are of a plugin's measure."""
    return ~geometry["measure"].isin([*SHOWN])
