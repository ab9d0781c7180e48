"""Linear probes on points held out by group, and the code length of labels given the points.

All tasks and penalties are solved at once in the principal axes of the training points: an L2 penalty is invariant to
the rotation, and in these axes the curvature of the loss is nearly diagonal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.moments import Floats, Ints, as_cloud, check_folds, indices, rows_of_each
from isoscope.geometry.regressions import chances, code_lengths, logistic_regressions

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""C as in scikit-learn: the loss is C · Σ −ln p(label) + ‖weights‖²/2, the intercept without penalty."""
RIDGES = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5)  # weights of ‖weights‖², added to the sum of squared errors
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the groups at which the blocks of an online code end
INNER = 3  # inner folds of a training part, to choose its penalty
LOOSE, TIGHT, LAST = 1e-3, 1e-5, 1e-7
"""Nats per point from the minimum before a fit's last step: to choose a penalty, to code labels, to predict."""


class LinearProbe(NamedTuple):
    """Share of n held-out points predicted correctly; the largest class's share; C, geometric mean over folds."""

    accuracy: float
    chance: float
    n: int
    d: int
    penalty: float


class RidgeProbe(NamedTuple):
    """R² over n held-out values (below 0: worse than the training mean); the ridge, geometric mean over folds."""

    r2: float
    n: int
    d: int
    penalty: float


class CodeLength(NamedTuple):
    """Bits of the online code of n labels, bits of a uniform code, and uniform / online."""

    bits: float
    uniform: float
    compression: float
    n: int
    d: int


def linear_probe(points: ArrayLike, labels: ArrayLike, groups: ArrayLike, **options: Any) -> LinearProbe:
    """Run `linear_probes` on one task, with its options."""
    return linear_probes(points, {"labels": labels}, groups, **options)["labels"]


def linear_probes(
    points: ArrayLike,
    tasks: Mapping[str, ArrayLike],
    groups: ArrayLike,
    *,
    seed: int,
    folds: int = 5,
    penalties: Sequence[float] = PENALTIES,
    strata: ArrayLike | None = None,
    share: float = 1.0,
    standardise: bool = True,
) -> dict[str, LinearProbe]:
    """Return held-out accuracy of multinomial L2 logistic regression, for each task's labels `[n]` of points `[n, d]`.

    Outer folds hold out whole groups (sentences). Each training part chooses the penalty with the shortest code for
    labels held out by group in inner folds. The outer fold is evaluated once. Folds depend on groups, seed and
    `strata`. Each stratum is spread evenly over the folds; else a fold's largest class tends to be the others'
    smallest, and chance is missed. Training uses `share` of the other folds' groups. `standardise` scales each
    dimension by its training mean and sd; else one number scales the cloud, so rotations change nothing. Raises
    `InputError` for labels of one class, fewer than two folds, and fewer groups than folds.
    """
    cloud, group = _grouped(points, groups)
    check_folds(folds, int(group.max()) + 1)
    labels = {name: _classes(values, cloud, name) for name, values in tasks.items()}
    outer, inner = (_shuffled_places(group, seed, stream, strata) for stream in range(2))
    kept = _shuffled_places(group, seed, 2) < share * (group.max() + 1)
    found = {name: np.zeros(2) for name in labels}
    for fold in range(folds):
        test = outer % folds == fold
        train, held, energy = _axes(cloud[~test], cloud[test], standardise)
        taught, inside = kept[~test], inner[~test] % INNER
        parts = [(taught & (inside != part), taught & (inside == part)) for part in range(INNER)]
        if not all(known.any() for known, _ in parts):
            raise InputError(f"groups: {group.max() + 1} are too few for a share of {share:g} of them; give more")
        for names, of, classes in _by_class_count(labels):
            mine = of[:, ~test]
            bits, start = code_lengths(train, energy, mine, classes, penalties, parts, LOOSE)
            best = np.asarray(penalties)[bits.argmin(1)]
            given = (train[taught], energy, mine[:, taught], classes, best)
            fits = logistic_regressions(*given, tolerance=LAST, start=start)
            right = (chances(held, fits).argmax(1) == of[:, test]).sum(1)
            for name, *scores in zip(names, right.tolist(), np.log(best).tolist(), strict=True):
                found[name] += scores
    (n, d), chance = cloud.shape, {name: float(np.bincount(of).max()) / len(cloud) for name, of in labels.items()}
    return {
        name: LinearProbe(float(right) / n, chance[name], n, d, float(np.exp(logs / folds)))
        for name, (right, logs) in found.items()
    }


def permuted(
    labels: ArrayLike, groups: ArrayLike, *, seed: int, draws: int, folds: int = 5, strata: ArrayLike | None = None
) -> NDArray[Any]:
    """Return random labels for `linear_probes` on the same folds, `[draws, n]`: permuted within each outer fold.

    Each fold keeps its classes. So the score on them is chance plus the bias of folds with unequal classes: if a fold
    has more of a class than the others, training has less of it, and guessing is wrong more often than 1 − chance.
    """
    values = np.asarray(labels)
    group = indices(groups, len(values), "groups")
    check_folds(folds, int(group.max()) + 1)
    fold = _shuffled_places(group, seed, 0, strata) % folds
    found = np.repeat(values[None], draws, 0)
    for draw, random in enumerate(np.random.default_rng((seed, 3)).spawn(draws)):
        for rows in rows_of_each(fold):
            found[draw, rows] = random.permutation(values[rows])
    return found


def learning_curve(
    points: ArrayLike,
    labels: ArrayLike,
    groups: ArrayLike,
    *,
    shares: Sequence[float] = (0.25, 0.5, 1.0),
    **options: Any,
) -> dict[float, LinearProbe]:
    """Run `linear_probe` on nested shares of each training part's groups, evaluated on the same held-out points."""
    return {share: linear_probe(points, labels, groups, share=share, **options) for share in shares}


def ridge_probe(points: ArrayLike, values: ArrayLike, groups: ArrayLike, **options: Any) -> RidgeProbe:
    """Run `ridge_probes` on one task, with its options."""
    return ridge_probes(points, {"values": values}, groups, **options)["values"]


def ridge_probes(
    points: ArrayLike, tasks: Mapping[str, ArrayLike], groups: ArrayLike, *, seed: int, folds: int = 5
) -> dict[str, RidgeProbe]:
    """Return held-out R² of ridge regression of each task's values `[n]` on points `[n, d]`, on the probes' folds.

    Each training part chooses the ridge by leave-one-group-out in closed form: the held-out residuals are (I − H)⁻¹
    times the residuals of the whole part's fit, with H the group's block of the hat matrix.
    """
    cloud, group = _grouped(points, groups)
    check_folds(folds, int(group.max()) + 1)
    for name, values in tasks.items():
        known = np.asarray(on_host(values), np.float64)
        if known.shape != (len(cloud),) or not np.isfinite(known).all() or np.ptp(known) == 0:
            raise InputError(f"{name}: expected {len(cloud)} finite numbers, not all the same")
    wanted = np.stack([np.asarray(on_host(values), np.float64) for values in tasks.values()])
    error, spread, logs = np.zeros((3, len(wanted)))
    outer = _shuffled_places(group, seed, 0) % folds
    for fold in range(folds):
        test = outer == fold
        train, held, energy = (part[..., :-1] for part in _axes(cloud[~test], cloud[test], True))
        middle = wanted[:, ~test].mean(1, keepdims=True)
        rest, sought = wanted[:, ~test] - middle, wanted[:, test] - middle
        ridge = _ridges(train, energy, rest, group[~test])
        error += ((sought - (rest @ train / (energy + ridge[:, None])) @ held.T) ** 2).sum(1)
        spread += (sought**2).sum(1)
        logs += np.log(ridge) / folds
    scores = zip(1 - error / spread, np.exp(logs), strict=True)
    return {
        name: RidgeProbe(float(r2), len(cloud), cloud.shape[1], float(ridge))
        for name, (r2, ridge) in zip(tasks, scores, strict=True)
    }


def online_code_length(points: ArrayLike, labels: ArrayLike, groups: ArrayLike, **options: Any) -> CodeLength:
    """Run `online_code_lengths` on one task, with its options."""
    return online_code_lengths(points, {"labels": labels}, groups, **options)["labels"]


def online_code_lengths(
    points: ArrayLike,
    tasks: Mapping[str, ArrayLike],
    groups: ArrayLike,
    *,
    seed: int,
    fractions: Sequence[float] = FRACTIONS,
) -> dict[str, CodeLength]:
    """Return each task's code length in bits: labels given the points, each block coded by models of earlier blocks.

    The first block that ends at as many points as classes is coded uniformly. After it, the classifiers of all
    penalties and the class frequencies are mixed by how well each has coded so far (Bayes), so no unsent label chooses
    a penalty. The receiver has the points, which are standardised together. `fractions` of the groups at which blocks
    end rise to 1: each point is sent. Raises `InputError` for others. Source: Voita and Titov 2020.
    """
    if [*fractions] != sorted({*fractions}) or not fractions or fractions[0] <= 0 or fractions[-1] != 1:
        raise InputError(f"fractions: expected rising shares that end at 1, got {[*fractions]}")
    cloud, group = _grouped(points, groups, len(fractions))
    rank = (_shuffled_places(group, seed, 2) + 1) / (group.max() + 1)
    block = np.searchsorted(np.asarray(fractions) + 1e-12, rank)
    design, _, energy = _axes(cloud, cloud[:0], True)
    labels = {name: _classes(values, cloud, name) for name, values in tasks.items()}
    found: dict[str, float] = {}
    for names, of, classes in _by_class_count(labels):
        first = min(int(np.searchsorted(np.cumsum(np.bincount(block)), classes)), len(fractions) - 1)
        parts = [(block < number, block == number) for number in range(first + 1, len(fractions))]
        costs = np.zeros((len(names), len(PENALTIES) + 1))
        for known, sent in parts:
            counts = np.stack([np.bincount(task, minlength=classes) for task in of[:, known]]) + 0.5
            share = np.take_along_axis(counts / counts.sum(1, keepdims=True), of[:, sent], 1)
            costs[:, -1] -= np.log2(share).sum(1)
        if parts:
            costs[:, :-1] = code_lengths(design, energy, of, classes, PENALTIES, parts, TIGHT)[0]
        # The code of a Bayes mixture of everything sent is the mixture of the experts' codes of everything sent.
        bits = (block <= first).sum() * np.log2(classes) - np.logaddexp2.reduce(-costs, 1)
        bits += np.log2(len(PENALTIES) + 1)
        found |= dict(zip(names, bits.tolist(), strict=True))
    uniform = {name: len(cloud) * float(np.log2(of.max() + 1)) for name, of in labels.items()}
    return {name: CodeLength(found[name], uniform[name], uniform[name] / found[name], *cloud.shape) for name in labels}


def _grouped(points: ArrayLike, groups: ArrayLike, least: int = 2) -> tuple[Floats, Ints]:
    cloud = as_cloud(points, least=2)
    names, group = np.unique(groups, return_inverse=True)
    if group.shape != (len(cloud),) or len(names) < least:
        raise InputError(
            f"groups: {group.size} points in {len(names)} groups; expected {len(cloud)} in at least {least}"
        )
    return cloud, group


def _shuffled_places(group: Ints, seed: int, stream: int, strata: ArrayLike | None = None) -> Ints:
    """Return each point's group's position in a shuffle of the groups, one stratum after another."""
    firsts = np.unique(group, return_index=True)[1]
    stratum = np.zeros(len(firsts)) if strata is None else indices(strata, len(group), "strata")[firsts]
    shuffled = np.random.default_rng((seed, stream)).permutation(len(firsts))
    return np.argsort(np.lexsort((shuffled, stratum)))[group]


def _classes(labels: ArrayLike, cloud: Floats, name: str) -> Ints:
    found, of = np.unique(np.asarray(labels), return_inverse=True)
    if of.shape != (len(cloud),) or len(found) < 2:
        raise InputError(f"{name}: {of.size} labels of {len(found)} classes; expected {len(cloud)} of at least 2")
    return of


def _by_class_count(labels: Mapping[str, Ints]) -> Iterator[tuple[list[str], Ints, int]]:
    """Yield tasks with the same number of classes together: names, labels `[tasks, n]`, number of classes."""
    classes = {name: int(of.max()) + 1 for name, of in labels.items()}
    for number in sorted(set(classes.values())):
        names = [name for name in labels if classes[name] == number]
        yield names, np.stack([labels[name] for name in names]), number


def _axes(train: Floats, test: Floats, standardise: bool) -> tuple[Floats, Floats, Floats]:
    """Return both in the training points' principal axes, with a last column of 1, and each axis' sum of squares."""
    mean, sd = train.mean(0), train.std(0)
    overall = np.sqrt((sd**2).mean())
    flat = sd <= 1e-6 * np.maximum(np.abs(mean), overall)  # dimensions that hold only rounding errors
    scale = np.where(flat, 0.0, 1 / np.where(flat, 1.0, sd if standardise else overall))
    train, test = (train - mean) * scale, (test - mean) * scale
    wide = train.shape[1] > len(train)
    energy, vectors = np.linalg.eigh(train @ train.T if wide else train.T @ train)
    real = energy > 1e-10 * max(float(energy[-1]), 1.0)
    energy, vectors = energy[real], vectors[:, real]
    along = vectors * np.sqrt(energy) if wide else train @ vectors
    across = test @ (train.T @ (vectors / np.sqrt(energy))) if wide else test @ vectors
    train, test = (np.column_stack([part, np.ones(len(part))]) for part in (along, across))
    return train, test, np.append(energy, len(train))


def _ridges(axes: Floats, energy: Floats, rest: Floats, group: Ints) -> Floats:
    """Return for each task `[tasks, n]` the ridge of RIDGES with the smallest leave-one-group-out error."""
    unit, shrunk = axes / np.sqrt(energy), energy / (energy + np.array(RIDGES)[:, None])
    residual = rest - ((rest @ unit) * shrunk[:, None]) @ unit.T  # [ridges, tasks, n]
    errors = np.zeros((len(RIDGES), len(rest)))
    for rows in rows_of_each(np.unique(group, return_inverse=True)[1]):
        hat = (unit[rows] * shrunk[:, None]) @ unit[rows].T + 1 / rest.shape[1]
        out = np.linalg.solve(np.eye(len(rows)) - hat, residual[..., rows].transpose(0, 2, 1))
        errors += (out**2).sum(1)
    return np.asarray(RIDGES)[errors.argmin(0)]
