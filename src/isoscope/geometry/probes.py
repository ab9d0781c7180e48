"""What a linear reader finds in a cloud on points held out by group, and what labels cost as a code given the points.

All tasks and penalties are solved at once in the principal axes of the training points: an L2 penalty does not see the
rotation, and in these axes the curvature of the loss is all but diagonal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats, Ints, as_cloud
from isoscope.geometry.regressions import Fits, chances, logistic_regressions

Array = npt.ArrayLike
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""C as scikit-learn has it: the loss is C · Σ −ln p(label) + ‖weights‖²/2, the intercept left free."""
RIDGES = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5)  # weights of ‖weights‖² beside the sum of squared errors
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the groups, where the blocks of an online code end
INNER = 3  # folds inside a training part, by which its penalty is chosen
LOOSE, TIGHT = 1e-3, 1e-5  # nats a point from its minimum from which a fit takes its last step: to choose, to tell


class LinearProbe(NamedTuple):
    """Share of n held-out points whose label is found; the largest class's share; C, geometric mean over folds."""

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
    """Bits of the online code of n labels, of a uniform code, and the latter over the former."""

    bits: float
    uniform: float
    compression: float
    n: int
    d: int


def linear_probe(points: Array, labels: Array, groups: Array, **options: Any) -> LinearProbe:
    """`linear_probes` of one task, with its options."""
    return linear_probes(points, {"labels": labels}, groups, **options)["labels"]


def linear_probes(
    points: Array,
    tasks: Mapping[str, Array],
    groups: Array,
    *,
    seed: int,
    folds: int = 5,
    penalties: Sequence[float] = PENALTIES,
    strata: Array | None = None,
    share: float = 1.0,
    standardise: bool = True,
) -> dict[str, LinearProbe]:
    """Held-out accuracy of multinomial L2 logistic regression, for each task's labels `[n]` of points `[n, d]`.

    Outer folds hold out whole groups (sentences). Inside each training part that penalty is chosen which gives labels,
    held out by group once more, the shortest code; then the outer fold is looked at, once. Folds depend on groups, seed
    and `strata`, each dealt evenly: else a fold's largest class tends to be the others' smallest, and chance is missed.
    Training is on `share` of the other folds' groups. `standardise`: each dimension by its mean and sd there, else the
    cloud by one number, so that rotations change nothing. Raises `InputError` for labels of one class.
    """
    cloud, group = _grouped(points, groups, folds)
    labels = {name: _classes(values, cloud, name) for name, values in tasks.items()}
    outer, inner = (_dealt(group, seed, stream, strata) for stream in range(2))
    kept = _dealt(group, seed, 2) < share * (group.max() + 1)
    found = {name: np.zeros(2) for name in labels}
    for fold in range(folds):
        test = outer % folds == fold
        train, held, energy = _axes(cloud[~test], cloud[test], standardise)
        taught, inside = kept[~test], inner[~test] % INNER
        for names, of, classes in _alike(labels):
            mine, strength, bits = of[:, ~test], np.tile(penalties, len(names)), np.zeros(len(names) * len(penalties))
            for part in range(INNER):
                known, sent = (np.flatnonzero(taught & one) for one in (inside != part, inside == part))
                copies, asked = (np.repeat(mine[:, rows], len(penalties), 0) for rows in (known, sent))
                fits = logistic_regressions(train[known], energy, copies, classes, strength, tolerance=LOOSE)
                bits += _label_bits(train[sent], fits, asked, len(known)).sum(1)
            best = np.asarray(penalties)[bits.reshape(len(names), len(penalties)).argmin(1)]
            fits = logistic_regressions(train[taught], energy, mine[:, taught], classes, best, tolerance=TIGHT)
            right = (chances(held, fits).argmax(1) == of[:, test]).sum(1)
            for name, *figures in zip(names, right.tolist(), np.log(best).tolist(), strict=True):
                found[name] += figures
    (n, d), chance = cloud.shape, {name: float(np.bincount(of).max()) / len(cloud) for name, of in labels.items()}
    return {
        name: LinearProbe(float(right) / n, chance[name], n, d, float(np.exp(logs / folds)))
        for name, (right, logs) in found.items()
    }


def permuted(
    labels: Array, groups: Array, *, seed: int, draws: int, folds: int = 5, strata: Array | None = None
) -> npt.NDArray[Any]:
    """Labels without meaning for `linear_probes` on the same folds, `[draws, n]`: permuted within each outer fold.

    Each fold keeps its classes. So a score on them is chance with the bias of folds of unequal classes: where one has
    more of a class than the others, training has less of it, and guessing is wrong more often than 1 − chance.
    """
    values = np.asarray(labels)
    _, group = np.unique(groups, return_inverse=True)
    fold = _dealt(group, seed, 0, strata) % folds
    found = np.repeat(values[None], draws, 0)
    for draw, random in enumerate(np.random.default_rng((seed, 3)).spawn(draws)):
        for one in range(folds):
            found[draw, fold == one] = random.permutation(values[fold == one])
    return found


def learning_curve(
    points: Array, labels: Array, groups: Array, *, shares: Sequence[float] = (0.25, 0.5, 1.0), **options: Any
) -> dict[float, LinearProbe]:
    """`linear_probe` trained on nested shares of each training part's groups, judged on the same held-out points."""
    return {share: linear_probe(points, labels, groups, share=share, **options) for share in shares}


def ridge_probe(points: Array, values: Array, groups: Array, *, seed: int, folds: int = 5) -> RidgeProbe:
    """Held-out R² of ridge regression of `values` `[n]` on points `[n, d]`, on the folds of `linear_probes`.

    The ridge is chosen inside each training part by leaving each group out in closed form: its residuals are
    (I − H)⁻¹ times those of the whole part's fit, with H the group's block of the hat matrix.
    """
    cloud, group = _grouped(points, groups, folds)
    wanted = np.asarray(values, np.float64)
    if wanted.shape != (len(cloud),) or not np.isfinite(wanted).all() or np.ptp(wanted) == 0:
        raise InputError(f"values: expected {len(cloud)} finite numbers, not all the same")
    error, spread, chosen = 0.0, 0.0, []
    outer = _dealt(group, seed, 0) % folds
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


def online_code_length(points: Array, labels: Array, groups: Array, **options: Any) -> CodeLength:
    """`online_code_lengths` of one task, with its options."""
    return online_code_lengths(points, {"labels": labels}, groups, **options)["labels"]


def online_code_lengths(
    points: Array, tasks: Mapping[str, Array], groups: Array, *, seed: int, fractions: Sequence[float] = FRACTIONS
) -> dict[str, CodeLength]:
    """Bits of each task's labels given the points, sent block by block, each coded by what those before it taught.

    The first block that ends at as many points as classes is coded uniformly. After it the classifiers of all
    penalties, and the class frequencies, are mixed by how well each has coded so far (Bayes): no penalty is chosen by
    labels not yet sent. The receiver has the points, which are standardised together. Source: Voita and Titov 2020.
    """
    cloud, group = _grouped(points, groups, len(fractions))
    rank = (_dealt(group, seed, 2) + 1) / (group.max() + 1)
    block = np.searchsorted(np.asarray(fractions) + 1e-12, rank)
    design, _, energy = _axes(cloud, cloud[:0], True)
    labels = {name: _classes(values, cloud, name) for name, values in tasks.items()}
    found: dict[str, float] = {}
    for names, of, classes in _alike(labels):
        first = min(int(np.searchsorted(np.cumsum(np.bincount(block)), classes)), len(fractions) - 1)
        later = range(first + 1, len(fractions))
        fits: Fits | None = None
        costs = np.zeros((len(later), len(names), len(PENALTIES) + 1))
        for at, number in enumerate(later):
            before, rows = block < number, block == number
            copies, known = (np.repeat(of[:, here], len(PENALTIES), 0) for here in (rows, before))
            strength = np.tile(PENALTIES, len(names))
            fits = logistic_regressions(design[before], energy, known, classes, strength, tolerance=TIGHT, start=fits)
            bits = _label_bits(design[rows], fits, copies, int(before.sum()))
            costs[at, :, :-1] = bits.sum(1).reshape(len(names), -1)
            counts = np.stack([np.bincount(task, minlength=classes) for task in of[:, before]]) + 0.5
            share = np.take_along_axis(counts / counts.sum(1, keepdims=True), of[:, rows], 1)
            costs[at, :, -1] = -np.log2(share).sum(1)
        # The code of a Bayes mixture of all that was sent is the mixture of the experts' codes of all of it.
        bits = (block <= first).sum() * np.log2(classes) - np.logaddexp2.reduce(-costs.sum(0), 1)
        bits += np.log2(len(PENALTIES) + 1)
        found |= dict(zip(names, bits.tolist(), strict=True))
    uniform = {name: len(cloud) * float(np.log2(of.max() + 1)) for name, of in labels.items()}
    return {name: CodeLength(found[name], uniform[name], uniform[name] / found[name], *cloud.shape) for name in labels}


def selectivity(accuracy: float, control: float) -> float:
    """Accuracy less that on the control task; Hewitt and Liang 2019."""
    return accuracy - control


def _grouped(points: Array, groups: Array, least: int) -> tuple[Floats, Ints]:
    cloud = as_cloud(points, least=2)
    names, group = np.unique(groups, return_inverse=True)
    if group.shape != (len(cloud),) or len(names) < least:
        raise InputError(f"groups: {group.size} of {len(names)} kinds; expected {len(cloud)} of {least} kinds or more")
    return cloud, group


def _dealt(group: Ints, seed: int, stream: int, strata: Array | None = None) -> Ints:
    """Each point's group's place in a shuffle of the groups, one stratum after another; a group has one."""
    firsts = np.unique(group, return_index=True)[1]
    stratum = np.zeros(len(firsts)) if strata is None else np.asarray(strata)[firsts]
    shuffled = np.random.default_rng((seed, stream)).permutation(len(firsts))
    return np.argsort(np.lexsort((shuffled, stratum)))[group]


def _classes(labels: Array, cloud: Floats, name: str) -> Ints:
    found, of = np.unique(np.asarray(labels), return_inverse=True)
    if of.shape != (len(cloud),) or len(found) < 2:
        raise InputError(f"{name}: {of.size} labels of {len(found)} classes; expected {len(cloud)} of 2 or more")
    return of


def _alike(labels: Mapping[str, Ints]) -> Iterator[tuple[list[str], Ints, int]]:
    """Tasks of as many classes, with their labels `[tasks, n]` and the number of classes."""
    classes = {name: int(of.max()) + 1 for name, of in labels.items()}
    for number in sorted(set(classes.values())):
        names = [name for name in labels if classes[name] == number]
        yield names, np.stack([labels[name] for name in names]), number


def _axes(train: Floats, test: Floats, standardise: bool) -> tuple[Floats, Floats, Floats]:
    """Both in the training points' principal axes, a 1 at the end of each, and the sum of squares along each axis."""
    mean, sd = train.mean(0), train.std(0)
    overall = np.sqrt((sd**2).mean())
    flat = sd <= 1e-6 * np.maximum(np.abs(mean), overall)  # dimensions that hold nothing but rounding
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
    """Bits of each label `[fits, points]`, smoothed by half a training point a class (Krichevsky, Trofimov 1981)."""
    found = chances(design, fits)
    chance = np.take_along_axis(found, labels[:, None], 1)[:, 0]
    return np.asarray(-np.log2((trained * chance + 0.5) / (trained + found.shape[1] / 2)))


def _ridge(axes: Floats, energy: Floats, rest: Floats, group: Ints) -> float:
    """The one of RIDGES with the smallest error when every group is left out in turn."""
    unit, shrunk = axes / np.sqrt(energy), energy / (energy + np.array(RIDGES)[:, None])
    residual = rest - (shrunk * (unit.T @ rest)) @ unit.T
    errors = np.zeros(len(RIDGES))
    for rows in (group == one for one in np.unique(group)):
        hat = (unit[rows] * shrunk[:, None]) @ unit[rows].T + 1 / len(rest)
        errors += (np.linalg.solve(np.eye(hat.shape[1]) - hat, residual[:, rows, None]) ** 2).sum((1, 2))
    return RIDGES[int(errors.argmin())]
