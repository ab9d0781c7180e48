"""Analyse the embedding block over training: how word, position and fusion combine.

Cosines of tokens after the block (the heat map of Li 2025 (fusion), and as numbers), their neighbours and what a linear
map decodes, spectra along the hidden index with permuted axes as control, values over the hidden dimensions, and the
fusion's kernel as a filter.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.data.arrays import Flags, Floats, Vectors
from isoscope.geometry.contextuality import neighbour_shares, units
from isoscope.geometry.kernels import fourier, kernel_energy, permuted_axes
from isoscope.geometry.linear_maps import decodability
from isoscope.platform.statistics.delete_a_group import grouped_mean
from isoscope.platform.statistics.paired import Interval
from isoscope.states.shown_metrics import LEAVES
from isoscope.states.trajectory import GRADIENTS, Arrays, Rows, Snapshot, Trajectory, tabled

PARTS = ("block_word", "block_position", "block_fused", "block_normed")
NEAR = 3
"""Positions at most this far apart are neighbours: a kernel may see both."""


@tabled
def cosine_table(run: Trajectory) -> Iterator[Rows]:
    """Return the mean cosine of pairs of tokens of different sentences, for each snapshot and part of the block.

    Kinds of pairs: all; same position and different words; same word and different positions; different words more than
    `NEAR` positions apart. [CLS] and [SEP] are left out. `n`: pairs of the kind.
    """
    inner, sentence, position, word = inner_tokens(run)
    apart = np.abs(position[:, None] - position[None])
    same_word = word[:, None] == word[None]
    pairs = np.triu(sentence[:, None] != sentence[None], 1)
    kinds = {
        "all": pairs,
        "same position": pairs & (apart == 0) & ~same_word,
        "same word": pairs & same_word & (apart > 0),
        "neither": pairs & ~same_word & (apart > NEAR),
    }
    for who, points in _parts(run, run.snapshots):
        unit = units(points[inner])
        cosines = unit @ unit.T
        for kind, chosen in kinds.items():
            mean = float(cosines[chosen].mean()) if chosen.any() else float("nan")
            yield {**who, "pairs": kind, "cosine": mean, "n": int(chosen.sum())}


@tabled
def token_cosine_table(run: Trajectory, *, most: int) -> Iterator[Rows]:
    """Return the cosine of every two of the first `most` output tokens of the block, without [CLS] and [SEP].

    A row for each snapshot of `_ends` and each pair: one, other (places 0, 1, …), cosine. Computed by `token_cosines`.
    """
    for snapshot in _ends(run):
        cosines = token_cosines(run, snapshot, most=most)
        one, other = np.indices(cosines.shape)
        pairs = {"one": one.ravel(), "other": other.ravel(), "cosine": cosines.ravel()}
        yield pd.DataFrame({**snapshot.who, **pairs})


def token_cosines(run: Trajectory, snapshot: Snapshot, *, most: int) -> Floats:
    """Return cosines `[T, T]` of the block's first `most` output tokens, without [CLS], [SEP]; `[0, 0]` if none."""
    arrays = run.arrays(snapshot)
    part = leaving(arrays)
    inner = inner_tokens(run)[0][: most if part else 0]
    unit = units(arrays.whole(part)[inner]) if part else np.zeros((0, 1))
    return unit @ unit.T


def inner_tokens(run: Trajectory) -> tuple[npt.NDArray[Any], ...]:
    """Return row, sentence, position and token id of the stored tokens without [CLS] and [SEP], `[T]` each."""
    tokens = run.tokens[~run.tokens["end"]]
    return tokens.index.to_numpy(), *(tokens[name].to_numpy() for name in ("sentence", "position", "token"))


def leaving(arrays: Arrays) -> str | None:
    """Return the name of the array of the block's output tokens, see `LEAVES`."""
    return next((f"block_{part}" for part in LEAVES if f"block_{part}" in arrays.names), None)


@tabled
def spectrum_table(run: Trajectory, *, seed: int) -> Iterator[Rows]:
    """Return spectral flatness and near-dead share for each snapshot and part, and both with permuted hidden axes."""
    for who, points in _parts(run, run.snapshots):
        found, control = fourier(points), fourier(permuted_axes(points, seed=seed))
        permuted = {"flatness_permuted": control.flatness, "dead_permuted": control.dead}
        size = {"n": len(points), "d": points.shape[1]}
        yield {**who, "flatness": found.flatness, "dead": found.dead, **permuted, **size}


@tabled
def magnitude_table(run: Trajectory) -> Iterator[Rows]:
    """Return the rms magnitude of each frequency, scaled to a mean of 1, by part, for the snapshots of `_ends`."""
    for who, points in _parts(run, _ends(run)):
        found = fourier(points).magnitude
        frequency, magnitude = np.arange(1, len(found) + 1), found / found.mean()
        yield pd.DataFrame({**who, "n": len(points), "frequency": frequency, "magnitude": magnitude})


@tabled
def weight_table(run: Trajectory) -> Iterator[Rows]:
    """Return the fusion's kernel at each snapshot, a row per weight: source, offset along both axes (0: centre)."""
    for who, weights in _stored(run, "kernel"):
        for (source, token, hidden), weight in np.ndenumerate(weights):
            place = {"token": token - weights.shape[1] // 2, "hidden": hidden - weights.shape[2] // 2}
            yield {**who, "source": sources(weights)[source], **place, "weight": float(weight)}


def sources(weights: Vectors) -> tuple[str, ...]:
    return ("word", "token_type", "position") if len(weights) == 3 else ("word", "position")


@tabled
def kernel_table(run: Trajectory) -> Iterator[Rows]:
    """Return the kernel's energy by position at each snapshot; empty without a kernel."""
    for who, weights in _stored(run, "kernel"):
        energy = kernel_energy(weights)
        for source, name in enumerate(sources(weights)):
            shares = {place: float(share[source]) for place, share in energy._asdict().items()}
            yield {**who, "source": name, **shares, "norm": float(np.linalg.norm(weights[source]))}


def _stored(run: Trajectory, name: str) -> Iterator[tuple[dict[str, Any], Vectors]]:
    """Yield the array `name` of each training snapshot that has it."""
    for snapshot in run.trained:
        arrays = run.arrays(snapshot)
        if name in arrays.names:
            yield snapshot.who, arrays.whole(name)


def _parts(
    run: Trajectory, snapshots: Iterable[Snapshot], parts: tuple[str, ...] = PARTS
) -> Iterator[tuple[dict[str, Any], Vectors]]:
    """Yield the tokens of each of the `parts` of the block that a snapshot has, `[T, d]`."""
    for snapshot in snapshots:
        arrays = run.arrays(snapshot)
        for part in parts:
            if part in arrays.names:
                yield {**snapshot.who, "part": part.removeprefix("block_")}, arrays.whole(part)


@tabled
def gradient_table(run: Trajectory) -> Iterator[Rows]:
    """Return the gradient noise of each part of the embedding block at each snapshot.

    Columns: the squared norm of the gradient (unbiased), the trace of its covariance over batches, and their ratio, the
    noise scale in batches (McCandlish et al. 2018, arXiv:1812.06162). There is no ratio if the norm estimate is not
    positive. `n`: batches.
    """
    for who, gradients in _stored(run, "block_gradient"):
        for part, (norm, spread, n) in zip(GRADIENTS, gradients.astype(float), strict=True):
            if np.isfinite(norm):
                noise = spread / norm if norm > 0 else float("nan")
                yield {**who, "part": part, "mean": norm, "variance": spread, "noise": noise, "n": int(n)}


@tabled
def dimension_table(run: Trajectory) -> Iterator[Rows]:
    """Return mean, sd, skewness and kurtosis of each hidden dimension of the block's output tokens, for `_ends`.

    `outlier`: the dimension's mean or sd is more than 6 median absolute deviations (scaled to an sd) from the median.
    """
    for snapshot in _ends(run):
        arrays = run.arrays(snapshot)
        if (part := leaving(arrays)) is None:
            continue
        points = arrays.whole(part).astype(np.float64)
        mean, sd = points.mean(0), points.std(0, ddof=1)
        scaled = (points - mean) / np.where(sd > 0, sd, 1.0)
        yield pd.DataFrame(
            {
                **snapshot.who,
                "dimension": np.arange(points.shape[1]),
                "mean": mean,
                "sd": sd,
                "skewness": (scaled**3).mean(0),
                "kurtosis": (scaled**4).mean(0),
                "outlier": _far(mean) | _far(sd),
                "n": len(points),
            }
        )


def _far(values: Floats) -> Flags:
    away = np.abs(values - np.median(values))
    return away > 6 * (1.4826 * np.median(away))


def _ends(run: Trajectory) -> list[Snapshot]:
    """Return the first and the chosen snapshot; for a single checkpoint, the checkpoint and its twin."""
    return list(dict.fromkeys((run.trained[0], run.best))) if len(run.trained) > 1 else run.snapshots


@tabled
def neighbour_table(run: Trajectory, *, k: int, confidence: float) -> Iterator[Rows]:
    """Return how often a token's neighbours share its word or position, by snapshot and part of the block.

    Rates among the k nearest tokens by cosine in the full space, in other sentences, with the rate at chance; without
    [CLS] and [SEP]. `low`, `high`: interval of the rate over sentences, since tokens of a sentence are dependent; NaN
    for fewer than 10. `n`: tokens; `sentences`.
    """
    inner, sentence, position, word = inner_tokens(run)
    for who, points in _parts(run, run.snapshots, PARTS[2:]):
        for name, attribute in (("same word", word), ("same position", position)):
            near, chance = neighbour_shares(points[inner], attribute, sentence, k=k)
            interval = grouped_mean(near, sentence, confidence=confidence) or Interval(float("nan"), float("nan"))
            rates = {"rate": float(near.mean()), **interval._asdict(), "chance": float(chance.mean())}
            size = {"k": k, "n": len(inner), "sentences": len(np.unique(sentence))}
            yield {**who, "neighbours": name, **rates, **size}


@tabled
def decoding_table(run: Trajectory, *, seed: int) -> Iterator[Rows]:
    """Return how often word and position can be decoded linearly from the block's tokens, with a control.

    For the first snapshot, the chosen snapshot and the random-weights control: before and after the block's LayerNorm,
    and at each layer above (part `layer 1`, …). Sentences are held out.
    """
    inner, sentence, *_ = inner_tokens(run)
    for snapshot in dict.fromkeys(filter(None, (run.trained[0], run.best, run.twin))):
        arrays = run.arrays(snapshot)
        if {"block_word", "block_position"} <= arrays.names:
            targets = {name: arrays.whole(f"block_{name}")[inner] for name in ("word", "position")}
            layers = arrays.whole("block_layers") if "block_layers" in arrays.names else ()
            above = [({**snapshot.who, "part": f"layer {k}"}, points) for k, points in enumerate(layers, start=1)]
            for who, points in (*_parts(run, [snapshot], PARTS[2:]), *above):
                found = decodability(points[inner], targets, sentence, seed=seed)
                yield from ({**who, "read": name, **metrics._asdict()} for name, metrics in found.items())
