"""Linear probes on points held out by group, and the code length of labels given the points.

All tasks and penalties are solved at once in the principal axes of the training points: an L2 penalty is invariant to
the rotation, and in these axes the curvature of the loss is nearly diagonal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.base.errors import InputError
from isoscope.geometry.moments import Floats, Ints, as_cloud, rows_of_each
from isoscope.geometry.regressions import Fits, chances, logistic_regressions, regression_path

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""C as in scikit-learn: the loss is C · Σ −ln p(label) + ‖weights‖²/2, the intercept without penalty."""
RIDGES = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5)  # weights of ‖weights‖², added to the sum of squared errors
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the groups at which the blocks of an online code end
INNER = 3  # inner folds of a training part, to choose its penalty
HOPELESS = 1.25  # a code longer than the shortest so far by this factor: weaker penalties would fit noise
LOOSE, TIGHT = 1e-3, 1e-5  # nats per point from the minimum before a fit's last step: to choose a penalty, to report


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
    `InputError` for labels of one class.
    """
    cloud, group = _grouped(points, groups, folds)
    labels = {name: _classes(values, cloud, name) for name, values in tasks.items()}
    outer, inner = (_shuffled_places(group, seed, stream, strata) for stream in range(2))
    kept = _shuffled_places(group, seed, 2) < share * (group.max() + 1)
    found = {name: np.zeros(2) for name in labels}
    for fold in range(folds):
        test = outer % folds == fold
        train, held, energy = _axes(cloud[~test], cloud[test], standardise)
        taught, inside = kept[~test], inner[~test] % INNER
        parts = [taught & (inside == part) for part in range(INNER)]
        if any((part == taught).all() for part in parts):
            raise InputError(f"groups: {group.max() + 1} are too few for a share of {share:g} of them; give more")
        for names, of, classes in _by_class_count(labels):
            mine = of[:, ~test]
            best, start = _choose(train, energy, mine, classes, penalties, parts)
            given = (train[taught], energy, mine[:, taught], classes, best)
            fits = logistic_regressions(*given, tolerance=TIGHT, start=start)
            right = (chances(held, fits).argmax(1) == of[:, test]).sum(1)
            for name, *figures in zip(names, right.tolist(), np.log(best).tolist(), strict=True):
                found[name] += figures
    (n, d), chance = cloud.shape, {name: float(np.bincount(of).max()) / len(cloud) for name, of in labels.items()}
    return {
        name: LinearProbe(float(right) / n, chance[name], n, d, float(np.exp(logs / folds)))
        for name, (right, logs) in found.items()
    }


def _choose(
    train: Floats, energy: Floats, labels: Ints, classes: int, penalties: Sequence[float], parts: Sequence[Any]
) -> tuple[Floats, Fits]:
    """Return the C of each task `[tasks]` with the shortest code of held-out labels, and fits with it to begin from.

    `parts`: the points of each inner fold. C rises, and each fit begins at the last. A task is left out of weaker
    penalties once its code is longer than its shortest by `HOPELESS`: they would fit noise, and they cost most.
    """
    taught = np.any(parts, axis=0)
    inner = [(np.flatnonzero(taught & ~part), np.flatnonzero(part)) for part in parts]
    left, least, best = np.arange(len(labels)), np.full(len(labels), np.inf), np.empty(len(labels))
    last: list[Fits | None] = [None] * len(parts)
    found: dict[int, Fits] = {}
    for c in sorted(penalties):
        bits = np.zeros(len(left))
        for number, (known, sent) in enumerate(inner):
            given = (train[known], energy, labels[np.ix_(left, known)], classes, np.full(len(left), c))
            last[number] = fits = logistic_regressions(*given, tolerance=LOOSE, start=last[number])
            bits += _label_bits(train[sent], fits, labels[np.ix_(left, sent)], len(known)).sum(1)
        shorter = bits < least[left]
        least[left[shorter]], best[left[shorter]] = bits[shorter], c
        found |= {int(left[row]): fits.of(row) for row in np.flatnonzero(shorter)}
        hopeful = bits < HOPELESS * least[left]
        left, last = left[hopeful], [one and one.of(hopeful) for one in last]
        if not len(left):
            break
    return best, Fits(*map(np.stack, zip(*(found[task] for task in range(len(labels))), strict=True)))


def permuted(
    labels: ArrayLike, groups: ArrayLike, *, seed: int, draws: int, folds: int = 5, strata: ArrayLike | None = None
) -> NDArray[Any]:
    """Return random labels for `linear_probes` on the same folds, `[draws, n]`: permuted within each outer fold.

    Each fold keeps its classes. So the score on them is chance plus the bias of folds with unequal classes: if a fold
    has more of a class than the others, training has less of it, and guessing is wrong more often than 1 − chance.
    """
    values = np.asarray(labels)
    _, group = np.unique(groups, return_inverse=True)
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


def ridge_probe(points: ArrayLike, values: ArrayLike, groups: ArrayLike, *, seed: int, folds: int = 5) -> RidgeProbe:
    """Return held-out R² of ridge regression of `values` `[n]` on points `[n, d]`, on the folds of `linear_probes`.

    Each training part chooses the ridge by leave-one-group-out in closed form: the held-out residuals are (I − H)⁻¹
    times the residuals of the whole part's fit, with H the group's block of the hat matrix.
    """
    cloud, group = _grouped(points, groups, folds)
    wanted = np.asarray(values, np.float64)
    if wanted.shape != (len(cloud),) or not np.isfinite(wanted).all() or np.ptp(wanted) == 0:
        raise InputError(f"values: expected {len(cloud)} finite numbers, not all the same")
    error, spread, chosen = 0.0, 0.0, []
    outer = _shuffled_places(group, seed, 0) % folds
    for fold in range(folds):
        test = outer == fold
        train, held, energy = (part[..., :-1] for part in _axes(cloud[~test], cloud[test], True))
        middle = wanted[~test].mean()
        rest = wanted[~test] - middle
        ridge = _ridge(train, energy, rest, group[~test])
        error += float(((wanted[test] - middle - held @ (train.T @ rest / (energy + ridge))) ** 2).sum())
        spread += float(((wanted[test] - middle) ** 2).sum())
        chosen.append(np.log(ridge))
    return RidgeProbe(1 - error / spread, len(cloud), cloud.shape[1], float(np.exp(np.mean(chosen))))


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
    a penalty. The receiver has the points, which are standardised together. Source: Voita and Titov 2020.
    """
    cloud, group = _grouped(points, groups, len(fractions))
    rank = (_shuffled_places(group, seed, 2) + 1) / (group.max() + 1)
    block = np.searchsorted(np.asarray(fractions) + 1e-12, rank)
    design, _, energy = _axes(cloud, cloud[:0], True)
    labels = {name: _classes(values, cloud, name) for name, values in tasks.items()}
    found: dict[str, float] = {}
    for names, of, classes in _by_class_count(labels):
        first = min(int(np.searchsorted(np.cumsum(np.bincount(block)), classes)), len(fractions) - 1)
        later = range(first + 1, len(fractions))
        costs = np.zeros((len(later), len(names), len(PENALTIES) + 1))
        for at, number in enumerate(later):
            before, rows = block < number, block == number
            fits = regression_path(design[before], energy, of[:, before], classes, PENALTIES, tolerance=TIGHT)
            bits = _label_bits(design[rows], fits, np.repeat(of[:, rows], len(PENALTIES), 0), int(before.sum()))
            costs[at, :, :-1] = bits.sum(1).reshape(len(names), -1)
            counts = np.stack([np.bincount(task, minlength=classes) for task in of[:, before]]) + 0.5
            share = np.take_along_axis(counts / counts.sum(1, keepdims=True), of[:, rows], 1)
            costs[at, :, -1] = -np.log2(share).sum(1)
        # The code of a Bayes mixture of everything sent is the mixture of the experts' codes of everything sent.
        bits = (block <= first).sum() * np.log2(classes) - np.logaddexp2.reduce(-costs.sum(0), 1)
        bits += np.log2(len(PENALTIES) + 1)
        found |= dict(zip(names, bits.tolist(), strict=True))
    uniform = {name: len(cloud) * float(np.log2(of.max() + 1)) for name, of in labels.items()}
    return {name: CodeLength(found[name], uniform[name], uniform[name] / found[name], *cloud.shape) for name in labels}


def _grouped(points: ArrayLike, groups: ArrayLike, least: int) -> tuple[Floats, Ints]:
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
    stratum = np.zeros(len(firsts)) if strata is None else np.asarray(strata)[firsts]
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
    turn = train.T @ vectors / np.sqrt(energy) if wide else vectors
    train, test = (np.column_stack([part @ turn, np.ones(len(part))]) for part in (train, test))
    return train, test, np.append(energy, len(train))


def _label_bits(design: Floats, fits: Fits, labels: Ints, trained: int) -> Floats:
    """Return each label's bits `[fits, points]`, smoothed by half a point per class (Krichevsky, Trofimov 1981)."""
    found = chances(design, fits)
    chance = np.take_along_axis(found, labels[:, None], 1)[:, 0]
    return np.asarray(-np.log2((trained * chance + 0.5) / (trained + found.shape[1] / 2)))


def _ridge(axes: Floats, energy: Floats, rest: Floats, group: Ints) -> float:
    """Return the ridge of RIDGES with the smallest leave-one-group-out error."""
    unit, shrunk = axes / np.sqrt(energy), energy / (energy + np.array(RIDGES)[:, None])
    residual = rest - (shrunk * (unit.T @ rest)) @ unit.T
    errors = np.zeros(len(RIDGES))
    for rows in (group == one for one in np.unique(group)):
        hat = (unit[rows] * shrunk[:, None]) @ unit[rows].T + 1 / len(rest)
        errors += (np.linalg.solve(np.eye(hat.shape[1]) - hat, residual[:, rows, None]) ** 2).sum((1, 2))
    return RIDGES[int(errors.argmin())]
