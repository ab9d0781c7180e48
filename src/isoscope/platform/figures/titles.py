"""What people read for a metric's name: in figures, the report, MLflow and the schema."""

import re
from collections.abc import Iterable

REMOVED = {"": "", "_centred": ", mean removed", "_within": ", class means removed"}
_DIRECTIONS = {1: ("first", "a₁"), 2: ("second", "a₂"), 3: ("third", "a₃")}
TITLES: dict[str, str] = {
    **{
        f"a_{number}{suffix}": f"Share of the {ordinal} direction ({sign}{removed})"
        for number, (ordinal, sign) in _DIRECTIONS.items()
        for suffix, removed in REMOVED.items()
    },
    **{
        f"a_1{suffix}_at_n": f"Share of the first direction (a₁{removed}), at equal n"
        for suffix, removed in REMOVED.items()
    },
    "a_1_clustered": "Share of the first direction (a₁), k-means clusters' means removed",
    "a_1_clustered_null": "The same, of Gaussian noise with the same spectrum",
    "a_1_floor": "Share of the first direction (a₁) in noise",
    "arch_score": "Arch: R² of the second component on a parabola",
    "arch_score_null": "Arch: R² with random signs",
    "arch_score_p": "Arch: p value",
    "avg_sim": "Mean cosine, points of different sentences",
    "bar_evenness": "H / ln N of all bars within classes",
    "bar_longest": "Longest bar within classes",
    "bar_mean": "Mean bar within classes",
    "between_share": "Share of variance between classes",
    "bleu": "BLEU",
    "cka": "CKA",
    "close_share": "Share of points far closer to another than usual",
    "centroid_distance": "Distance of class means, in spreads",
    "chrf": "chrF",
    "clusters": "Number of clusters",
    "clusters_ami_first_token": "Agreement of clusters with the first token",
    "clusters_ami_label": "Agreement of clusters with the label",
    "clusters_ami_length": "Agreement of clusters with the length",
    "clusters_ami_second_token": "Agreement of clusters with the second token",
    "clusters_silhouette": "Silhouette of the clusters",
    "effective_rank": "Effective rank (dimensions)",
    "error": "Squared error of the alignment, per dimension",
    "f1": "F1",
    "fisher_ratio": "Fisher ratio: variance between / within classes",
    "h0_entropy": "Persistent entropy (nats)",
    "h0_entropy_share": "Persistent entropy, share of its maximum",
    "intra_sim": "Mean cosine of a word with its sentence",
    "intra_sim_left_out": "Mean cosine of a word with the rest of its sentence",
    "isoscore": "IsoScore",
    "isoscore_unbiased": "IsoScore, unbiased",
    "linear_separability": "Held-out accuracy of a linear classifier",
    "log_partition_isotropy": "Log of partition isotropy",
    "loss": "Loss",
    "matthews": "Matthews correlation",
    "mle": "Intrinsic dimension (likelihood)",
    "mle_at_n": "Intrinsic dimension (likelihood), at equal n",
    "moved": "Squared distance moved by the alignment, per dimension",
    "cosine_back": "Cosine retrieval, back",
    "cosine_forward": "Cosine retrieval, to the target",
    "neighbour_accuracy": "Accuracy of nearest neighbours",
    "neighbour_matthews": "Matthews correlation of nearest neighbours",
    "neighbours": "Common neighbours",
    "normal_cosine": "|cos| of first direction and class means' difference",
    "normal_cosine_shuffled": "The same, labels shuffled",
    "participation_ratio": "Participation ratio (dimensions)",
    "participation_ratio_unbiased": "Participation ratio, unbiased (dimensions)",
    "penalty": "Penalty",
    "penalty_gradient_norm": "Norm of the penalty's gradient",
    "procrustes": "Procrustes similarity",
    "pwcca": "PWCCA",
    "r2": "R²",
    "radius": "Root mean squared distance to the mean",
    "retrieval_back": "CSLS retrieval, back",
    "retrieval_forward": "CSLS retrieval, to the target",
    "ridge_accuracy": "Accuracy of ridge regression",
    "ridge_matthews": "Matthews correlation of ridge regression",
    "rsa": "RSA",
    "self_sim": "Mean cosine of a word with itself in other sentences",
    "silhouette": "Silhouette of the classes",
    "repeated_share": "Share of points that nearly repeat another point",
    "two_nn": "Intrinsic dimension (two neighbours)",
    "two_nn_at_n": "Intrinsic dimension (two neighbours), at equal n",
}
"""Metric → title, without where it was measured."""
LOSS_UNITS = {"accuracy": "nats", "error": "squared error per dimension, with its anchor"}
"""Metric that is measured beside a loss → the loss's unit. The unit of a plugin's loss may be unknown."""
WHERE = {"step": "of a batch", "train": "train", "validation": "validation", "test": "test"}
LAID = {"untouched": "as they are", "all_but_the_top": "without the largest directions", "whitened": "whitened"}
"""What is done to vectors after training → its title."""


def title(metric: str, among: Iterable[str] = ()) -> str:
    """Return what people read for a metric's name, such as `a_1_centred`, `validation/f1` or `posthoc/whitened/a_1`.

    `among`: the metrics of its objective, which say what the unit of its loss is (`LOSS_UNITS`).

    A name without a title of its own is written with spaces, and its first letter large.
    """
    where, _, name = metric.rpartition("/")
    found = TITLES.get(name) or re.sub(r"^[a-z]", lambda first: first[0].upper(), name.replace("_", " "))
    beside = {one.rpartition("/")[2] for one in among}
    if units := [unit for other, unit in LOSS_UNITS.items() if name == "loss" and other in beside]:
        found += f" ({units[0]})"
    after = LAID.get(where.removeprefix("posthoc/")) if where.startswith("posthoc/") else WHERE.get(where, where)
    return f"{found}, {after}" if after else found
