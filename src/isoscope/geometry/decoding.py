"""Decode vectors with a linear map: find the vectors that they were made from."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.base.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, as_cloud, indices

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Ridge penalties, relative to the mean squared singular value of the points."""


class Decoded(NamedTuple):
    """Share of n held-out points whose own target is the nearest of all `candidates` to the prediction.

    `control`: the same for a map fitted on shuffled pairs.
    """

    rate: float
    control: float
    candidates: int
    n: int


def decodability(
    points: ArrayLike,
    targets: Mapping[str, ArrayLike],
    groups: ArrayLike,
    *,
    seed: int,
    folds: int = 5,
) -> dict[str, Decoded]:
    """Return how often a target `[n, e]` is recovered from points `[n, d]`, for each name in `targets`.

    Folds hold whole `groups` (sentences). A ridge map from points to targets is fitted on all folds but one. For the
    held-out points, the prediction's nearest target by cosine, among all different targets, is compared with the
    point's own target. The penalty minimises the leave-one-out error in training. One decomposition of the points
    serves all targets. Raises `InputError` for fewer groups than folds, and if all targets are equal.
    """
    cloud = as_cloud(points, least=2)
    group = indices(groups, len(cloud), "groups")
    if group.max() + 1 < folds:
        raise InputError(f"groups: {group.max() + 1}, but {folds} folds need as many groups")
    draw = np.random.default_rng(seed)
    fold = draw.permutation(group.max() + 1)[group] % folds
    known = {name: _distinct(name, values, len(cloud)) for name, values in targets.items()}
    hits = {name: np.zeros(2) for name in targets}
    for one in range(folds):
        train, test = cloud[fold != one], cloud[fold == one]
        mean = train.mean(0)
        left, values, right = np.linalg.svd(train - mean, full_matrices=False)
        held = (test - mean) @ right.T
        shuffled = draw.permutation(len(train))
        for name, (candidates, of) in known.items():
            wanted = candidates[of[fold != one]]
            for column, pairs in enumerate((wanted, wanted[shuffled])):
                near = units(candidates - wanted.mean(0)) @ units(held @ _map(left, values, pairs)).T
                hits[name][column] += (near.argmax(0) == of[fold == one]).sum()
    n = len(cloud)
    return {
        name: Decoded(float(hits[name][0]) / n, float(hits[name][1]) / n, len(candidates), n)
        for name, (candidates, _) in known.items()
    }


def _distinct(name: str, values: ArrayLike, n: int) -> tuple[Floats, NDArray[np.int64]]:
    rows, of = np.unique(as_cloud(values), axis=0, return_inverse=True)
    if len(of.ravel()) != n or len(rows) < 2:
        raise InputError(f"{name}: {len(rows)} different targets of {of.size}; expected {n} targets, not all the same")
    # In axes of their own, few targets have few dimensions: the same distances and cosines, a fraction of the work.
    return np.asarray(np.linalg.qr(rows.T, mode="r")).T, of.ravel()


def _map(left: Floats, values: Floats, wanted: Floats) -> Floats:
    """Return the coefficients `[axes, e]` of centred targets in the principal axes of the training points."""
    rest = wanted - wanted.mean(0)
    along = left.T @ rest
    energy = values**2
    best, least = np.zeros_like(energy), np.inf
    for ridge in RIDGES:
        shrunk = energy / (energy + ridge * energy.mean())
        hat = ((left**2) @ shrunk + 1 / len(left))[:, None]
        error = float((((rest - left @ (shrunk[:, None] * along)) / (1 - hat)) ** 2).sum())
        if error < least:
            best, least = shrunk, error
    return np.asarray((best / np.where(values > 0, values, 1.0))[:, None] * along)
