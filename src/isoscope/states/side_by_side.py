"""Compare the hidden states of all arms: tables of each arm's first seed, and the data of the report's explorer."""

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from isoscope.base.errors import InputError
from isoscope.geometry.kernels import frequency_response
from isoscope.states.block import leaving, sources, token_cosines
from isoscope.states.sentence_tables import diagram_distances
from isoscope.states.trajectory import Trajectory

Key = tuple[str, int]
"""Arm and seed of a run."""
MOMENTS = ("first", "chosen")
"""Snapshots at which arms are compared, see `Trajectory.moments`."""
COLUMNS, ROWS = 6, 5
"""Number of snapshots and of layers in a figure of feature dynamics."""
TOGETHER = 1200
"""Number of tokens of all arms in a map; it bounds the cost of studies with many arms."""
MOST = 200
"""Number of sentences in the explorer: enough to see a shape, few enough for a page."""
LETTERS = 120
"""Maximum number of letters of a sentence."""


def first_seeds(runs: Mapping[Key, Trajectory]) -> dict[str, Trajectory]:
    """Return the first seed of each arm, in the order of the arms."""
    found: dict[str, Trajectory] = {}
    for (arm, _), run in runs.items():
        found.setdefault(arm, run)
    return found


def shown_planes(
    runs: Mapping[Key, Trajectory], planes: Mapping[Key, pd.DataFrame], classes: Sequence[str]
) -> pd.DataFrame:
    """Return coordinates of `planes` at a few snapshots and layers, with the label and class of each sentence.

    Snapshots are spread from the first to the last; the chosen snapshot is included.
    """
    found = []
    for arm, run in first_seeds(runs).items():
        seed = next(seed for other, seed in runs if other == arm)
        points, order = planes[arm, seed], run.trained
        names = [order[place].name for place in _spread(len(order), COLUMNS)] + [run.best.name]
        layers = _spread(run.arrays(run.best).shape("first")[0], ROWS)
        shown = points[points["snapshot"].isin(names) & points["layer"].isin(layers)]
        labels = run.probe["label"].to_numpy()[shown["sentence"]]
        found.append(shown.assign(arm=arm, seed=seed, label=labels, **{"class": [classes[one] for one in labels]}))
    return pd.concat(found, ignore_index=True)


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` positions, evenly spaced, with the first and the last."""
    return sorted({int(place) for place in np.linspace(0, count - 1, min(most, count)).round()})


def maps(runs: Mapping[Key, Trajectory], *, perplexity: float, seed: int, most: int) -> pd.DataFrame:
    """Compute the joint map of the arms' first seeds, at the first snapshot and at the chosen epoch."""
    one = first_seeds(runs)
    options: dict[str, Any] = {"perplexity": perplexity, "seed": seed, "most": min(most, max(3, TOGETHER // len(one)))}
    parts = [joint_map(one, moment, **options).assign(moment=moment) for moment in MOMENTS]
    return pd.concat(parts, ignore_index=True)


def joint_map(runs: Mapping[str, Trajectory], moment: str, *, perplexity: float, seed: int, most: int) -> pd.DataFrame:
    """Compute t-SNE and PCA of the tokens of all arms together, as they leave the embedding block (`block.leaving`).

    Columns arm, sentence, position, token, x, y (t-SNE), pc1, pc2; `most` tokens of each arm; no rows if no arm's model
    has an embedding block, and, with a line on stderr, if the arms differ in width or tokens. t-SNE starts from the PCA
    with a fixed seed. It is an illustration: its distances between clusters and its cluster sizes have no meaning.
    Raises `InputError` for fewer points than three perplexities.
    """
    first, *others = (run.tokens for run in runs.values())
    if any(not table.equals(first) for table in others):
        print(f"isoscope: no joint map: {', '.join(runs)} do not read the same tokens", file=sys.stderr)
        return pd.DataFrame()
    tokens = first[~first["end"]].iloc[:most]  # without [CLS] and [SEP]
    arrays = {arm: run.arrays(run.moments[moment]) for arm, run in runs.items()}
    parts = {arm: own.whole(part)[tokens.index] for arm, own in arrays.items() if (part := leaving(own))}
    if len({part.shape[1] for part in parts.values()}) > 1:
        widths = ", ".join(f"{arm} {part.shape[1]}" for arm, part in parts.items())
        print(f"isoscope: no joint map: the arms differ in width ({widths})", file=sys.stderr)
        parts = {}
    if not parts:
        return pd.DataFrame()
    points = np.concatenate([*parts.values()]).astype(np.float64)
    if len(points) < 3 * perplexity:
        raise InputError(
            f"measures.perplexity: {perplexity:g} needs at least {3 * perplexity:.0f} tokens, got {len(points)}"
        )
    reduced = PCA(min(50, *points.shape), svd_solver="full").fit_transform(points)
    tsne = TSNE(perplexity=perplexity, init=reduced[:, :2] / reduced[:, 0].std() * 1e-4, random_state=seed)
    drawn = tsne.fit_transform(reduced)
    found = pd.concat([tokens[["sentence", "position", "token"]]] * len(parts), ignore_index=True)
    found.insert(0, "arm", np.repeat(list(parts), len(tokens)))
    return found.assign(x=drawn[:, 0], y=drawn[:, 1], pc1=reduced[:, 0], pc2=reduced[:, 1])


def cosine_maps(runs: Mapping[Key, Trajectory], square: int) -> pd.DataFrame:
    """Return cosines of the same `square` tokens in each arm after the block, as `block.token_cosines`.

    A row per arm, moment and token: `cosines` with each of the tokens.
    """
    rows = [
        {"arm": arm, "moment": moment, "cosines": cosines}
        for arm, run in first_seeds(runs).items()
        for moment in MOMENTS
        for cosines in token_cosines(run, run.moments[moment], most=square)
    ]
    found = pd.DataFrame(rows, columns=["arm", "moment", "cosines"])
    return found.sort_values("moment", ascending=False, kind="stable", ignore_index=True)


def kernel_responses(runs: Mapping[Key, Trajectory]) -> pd.DataFrame:
    """Return the frequency response of each kernel (`geometry.kernels`): a row per arm, moment, source and frequency.

    `magnitudes` are by frequency along the hidden index. No rows if no arm has a kernel.
    """
    rows: list[tuple[str, str, str, Any]] = []
    for arm, run in first_seeds(runs).items():
        called = {run.moments[moment]: moment for moment in MOMENTS}  # one snapshot can be both moments
        for snapshot, moment in called.items() if "kernel" in run.arrays(run.best).names else ():
            weights = run.arrays(snapshot).whole("kernel")
            for source, response in zip(sources(weights), frequency_response(weights), strict=True):
                rows += [(arm, moment, source.replace("_", " "), magnitudes) for magnitudes in response]
    return pd.DataFrame(rows, columns=["arm", "moment", "source", "magnitudes"])


def arm_distances(bars: pd.DataFrame) -> pd.DataFrame:
    """Return bottleneck and 1-Wasserstein distance between the chosen diagrams of every two arms, seed by seed.

    Columns arm, other, seed, degree, bottleneck, wasserstein. `bars` is the table of `topology` with arm and seed.
    """
    rows = []
    chosen = bars[bars["moment"] == "chosen"]
    for seed, of_seed in chosen.groupby("seed", sort=False):
        for degree, (arm, other) in product(of_seed["degree"].unique(), combinations(of_seed["arm"].unique(), 2)):
            part = of_seed[of_seed["degree"] == degree]  # without rows of an arm that has no bar of this degree
            one, two = (part.loc[part["arm"] == name, ["birth", "death"]].to_numpy() for name in (arm, other))
            distances = diagram_distances(one, two)
            rows.append({"arm": arm, "other": other, "seed": seed, "degree": degree, **distances})
    return pd.DataFrame(rows)


def explorer(
    runs: Mapping[tuple[str, int], Trajectory],
    planes: Mapping[tuple[str, int], pd.DataFrame],
    frames: Mapping[tuple[str, int], pd.DataFrame],
) -> dict[str, Any]:
    """Return plain values: sentences, labels, and by arm and seed the snapshots, layers and coordinates.

    Coordinates are scaled by each frame's largest value (an untrained frame is a hundred times smaller than a trained
    frame) to integers from −1000 to 1000. `points[layer][snapshot]` lists x and y of each sentence.
    """
    first = next(iter(runs.values()))
    kept = np.linspace(0, len(first.probe) - 1, min(MOST, len(first.probe))).round().astype(int)
    shown = first.probe.iloc[kept]
    texts = shown.filter(regex="^text").itertuples(index=False, name=None)
    sentences = [" / ".join(map(str, text))[:LETTERS] for text in texts]
    found: dict[str, Any] = {"sentences": sentences, "labels": shown["label"].tolist(), "runs": []}
    for (arm, seed), table in planes.items():
        of, layers, snapshots = frames[arm, seed], table["layer"].unique(), list(dict.fromkeys(table["snapshot"]))
        shape = len(layers), len(snapshots)  # both tables are in the order of layers, snapshots and sentences
        xy = table[["pc1", "pc2"]].to_numpy().reshape(*shape, -1, 2)[:, :, kept]
        single = of["degenerate"].to_numpy(bool).reshape(shape)
        scaled = 1000 * xy / np.where(single, np.inf, np.abs(xy).max((2, 3)))[..., None, None]
        shares = of[["explained_1", "explained_2"]].to_numpy(float).reshape(*shape, 2).tolist()
        explained = [
            [None if one else [round(part, 3) for part in both] for one, both in zip(*layer, strict=True)]
            for layer in zip(single, shares, strict=True)
        ]
        found["runs"].append(
            {
                "arm": arm,
                "seed": seed,
                "layers": layers.tolist(),
                "steps": of["step"].iloc[: len(snapshots)].astype(int).tolist(),
                "best": snapshots.index(runs[arm, seed].best.name),
                "points": scaled.round().astype(int).reshape(*shape, -1).tolist(),
                "explained": explained,
            }
        )
    return found
