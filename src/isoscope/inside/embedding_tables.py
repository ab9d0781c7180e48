"""Compare the embedding spaces of several arms: a joint map of their tokens, and evidence that needs no map."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from isoscope.errors import InputError
from isoscope.geometry.contextuality import neighbour_shares
from isoscope.geometry.decoding import decodability
from isoscope.inside.trajectory import Snapshot, Trajectory
from isoscope.statistics.paired import bootstrap_mean


def _chosen(runs: Mapping[str, Trajectory], most: int) -> pd.DataFrame:
    """Return the tokens to show, the same for every arm: those of the first sentences, without [CLS] and [SEP]."""
    tables = [run.tokens for run in runs.values()]
    if any(not table.equals(tables[0]) for table in tables):
        raise InputError("embedding space: the arms have different probe sets; run: isoscope repro")
    inner = tables[0][~tables[0]["end"]]
    return inner.iloc[:most]


def joint_map(
    runs: Mapping[str, Trajectory],
    snapshots: Mapping[str, Snapshot],
    *,
    perplexity: float,
    seed: int,
    most: int,
) -> pd.DataFrame:
    """Compute t-SNE and PCA of the tokens of all arms together, after the embedding block's LayerNorm.

    Columns arm, sentence, position, token, x, y (t-SNE), pc1, pc2; `most` tokens of each arm. t-SNE starts from the PCA
    with a fixed seed. It is an illustration: its distances between clusters and its cluster sizes have no meaning.
    Raises `InputError` for fewer points than three perplexities, and for arms with different probe sets.
    """
    tokens = _chosen(runs, most)
    parts = [runs[arm].arrays(snapshots[arm]).whole("block_normed")[tokens.index] for arm in runs]
    points = np.concatenate(parts).astype(np.float64)
    if len(points) < 3 * perplexity:
        raise InputError(
            f"measures.perplexity: {perplexity:g} needs at least {3 * perplexity:.0f} tokens, got {len(points)}"
        )
    reduced = PCA(min(50, *points.shape), svd_solver="full").fit_transform(points)
    tsne = TSNE(perplexity=perplexity, init=reduced[:, :2] / reduced[:, 0].std() * 1e-4, random_state=seed)
    drawn = tsne.fit_transform(reduced)
    found = pd.concat([tokens[["sentence", "position", "token"]]] * len(runs), ignore_index=True)
    found.insert(0, "arm", np.repeat(list(runs), len(tokens)))
    return found.assign(x=drawn[:, 0], y=drawn[:, 1], pc1=reduced[:, 0], pc2=reduced[:, 1])


def neighbour_table(run: Trajectory, *, k: int, confidence: float, seed: int) -> pd.DataFrame:
    """Return how often a token's neighbours share its word or position, by snapshot and part of the block.

    Rates among the k nearest tokens by cosine in the full space, in other sentences, with the rate at chance; without
    [CLS] and [SEP]. `low`, `high`: interval of the rate over sentences, since tokens of a sentence are dependent. `n`:
    tokens; `sentences`.
    """
    tokens = run.tokens
    inner = np.flatnonzero(~tokens["end"].to_numpy())
    known = {name: tokens[name].to_numpy()[inner] for name in ("sentence", "position", "token")}
    rows = []
    for snapshot in run.snapshots:
        arrays = run.arrays(snapshot)
        for part in ("fused", "normed"):
            if f"block_{part}" not in arrays.names:
                continue
            points = arrays.whole(f"block_{part}")[inner]
            for name, column in (("same word", "token"), ("same position", "position")):
                shares = neighbour_shares(points, known[column], known["sentence"], k=k)
                interval = bootstrap_mean(shares.near, known["sentence"], confidence=confidence, seed=seed)
                rows.append(
                    {
                        "snapshot": snapshot.name,
                        "step": snapshot.step,
                        "best": snapshot.best,
                        "part": part,
                        "neighbours": name,
                        "rate": float(shares.near.mean()),
                        **interval._asdict(),
                        "chance": float(shares.chance.mean()),
                        "k": k,
                        "n": len(points),
                        "sentences": len(np.unique(known["sentence"])),
                    }
                )
    return pd.DataFrame(rows).astype({"step": "Int64"}) if rows else pd.DataFrame()


def decoding_table(run: Trajectory, *, seed: int) -> pd.DataFrame:
    """Return how often word and position can be decoded linearly from the block's tokens, with a control.

    For the first snapshot, the chosen snapshot and the random twin, before and after LayerNorm. Sentences are held out.
    """
    tokens = run.tokens
    inner = np.flatnonzero(~tokens["end"].to_numpy())
    groups = tokens["sentence"].to_numpy()[inner]
    rows = []
    for snapshot in dict.fromkeys((run.trained[0], run.best, *(one for one in run.snapshots if one.step is None))):
        arrays = run.arrays(snapshot)
        if not {"block_word", "block_position"} <= arrays.names:
            continue
        targets = {name: arrays.whole(f"block_{name}")[inner] for name in ("word", "position")}
        for part in (one for one in ("fused", "normed") if f"block_{one}" in arrays.names):
            found = decodability(arrays.whole(f"block_{part}")[inner], targets, groups, seed=seed)
            for name, figures in found.items():
                who = {"snapshot": snapshot.name, "step": snapshot.step, "best": snapshot.best}
                rows.append({**who, "part": part, "read": name, **figures._asdict()})
    return pd.DataFrame(rows).astype({"step": "Int64"}) if rows else pd.DataFrame()
