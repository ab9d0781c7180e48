"""Fit logistic regressions of the same points to many labels with many penalties, all at once.

Truncated Newton steps: preconditioned conjugate gradients solve for the step, and all fits share their products. Slopes
and losses are in double precision, and steps in single precision unless the tolerance asks for more: half the cost.
First-order methods are not cheaper: with a weak penalty they leave errors of several per cent in the code length of
labels.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from isoscope.base.errors import InputError
from isoscope.geometry.moments import Floats, Ints

ABSENT = -1e30  # logit of a class without training points
STEPS, PRODUCTS, HALVINGS = 100, 1000, 30  # limits: Newton steps, products per step, halvings of a step
ROUNDING = 1e-10  # nats per point below which rounding dominates
HOPELESS, MARGIN = 1.05, 20.0
"""A code longer than this factor of the shortest so far, and by this many bits: weaker penalties would fit noise."""
COARSE = 0.25  # share of the gradient that a first step may leave; later steps leave less, by its square root
FINE = 1e-5  # share of the tolerance that a step may leave unsolved
SINGLE = 1e-9  # least tolerance at which steps are solved in single precision


class Fits(NamedTuple):
    """Coefficients `[fits, classes, axes]`, and terms `absent` `[fits, classes]` that switch off empty classes' logits.

    With two classes, both hold the second class only.
    """

    coefficients: Floats
    absent: Floats

    def of(self, which: Any) -> "Fits":
        """Return the fits that an index, a mask or a list of numbers names."""
        return Fits(self.coefficients[which], self.absent[which])


def logistic_regressions(
    design: Floats,
    energy: Floats,
    labels: Ints,
    classes: int,
    strength: Floats,
    *,
    tolerance: float,
    start: Fits | None = None,
) -> Fits:
    """Minimise C · Σ −ln p(label) + ‖weights‖²/2 for labels `[fits, points]` (0 …) and each fit's C in `strength`.

    `design` `[points, axes]` ends with a column of ones, whose weights (intercepts) have no penalty. Its axes are
    nearly orthogonal; `energy` are the sums of squares along them, of these points or of a superset. A fit ends after a
    step from within `tolerance` nats per point of its minimum, estimated as half the decrement along that step.
    `start`: fits to begin from. Raises `InputError` if `STEPS` steps do not converge: C is too large.
    """
    target = (labels[:, None] == np.arange(classes)[:, None]).astype(float)
    counts = target.sum(2)
    absent, first = np.where(counts > 0, 0.0, ABSENT), np.log(counts + 0.5)
    if classes == 2:
        absent, first, target = absent[:, 1:] - absent[:, :1], first[:, 1:] - first[:, :1], target[:, 1:]
    penalty = (np.append(np.ones(len(energy) - 1), 0.0) / np.asarray(strength)[:, None])[:, None]
    at = np.zeros((*absent.shape, len(energy)))
    at[..., -1] = first
    if start is not None:
        at[:] = start.coefficients
    found, left, added = at.copy(), np.arange(len(at)), absent
    rough: NDArray[Any] = design.astype(np.float32) if tolerance >= SINGLE else design
    raw = _logits(design, at, added)
    loss = _losses(raw, target, at, penalty)
    for _ in range(STEPS):
        chance = _of_classes(raw)[:, -target.shape[1] :]
        slope = _onto(chance - target, design) + penalty * at
        scale = (chance * (1 - chance)).mean(2)[..., None] * energy + penalty
        scale = np.maximum(scale, 1e-12 * energy)  # for probabilities of 0 or 1
        step = _newton_step(rough, chance, slope, scale, penalty, FINE * tolerance * len(design))
        at, raw, loss, fell = _line_search(design, added, target, penalty, (at, raw, loss), step, slope)
        found[left] = at
        missing = -_dot(slope, step) / (2 * len(design))
        if not (fell | (missing <= max(tolerance, ROUNDING))).all():
            break
        going = fell & (missing > tolerance)
        if not going.any():
            return Fits(found, absent)
        left = left[going]
        at, added, target, penalty, raw, loss = (part[going] for part in (at, added, target, penalty, raw, loss))
    raise InputError(
        f"logistic regression: C = {np.asarray(strength)[left].max():g} does not converge; use a smaller C"
    )


def chances(design: Floats, fits: Fits) -> Floats:
    """Return probabilities `[fits, classes, points]`."""
    return _of_classes(_logits(design, *fits))


def code_lengths(
    design: Floats,
    energy: Floats,
    labels: Ints,
    classes: int,
    penalties: Sequence[float],
    parts: Sequence[tuple[Any, Any]],
    tolerance: float,
) -> tuple[Floats, Fits]:
    """Return the bits of labels `[tasks, n]` by penalty `[tasks, penalties]`, and a fit with each task's best penalty.

    Of each of `parts` the first points are known and the others are sent. C rises, and each fit begins at the last:
    with a weak penalty and more axes than points, a step from zero overshoots, and hundreds of short steps follow. A
    task is left out of weaker penalties (infinite bits) once its code is longer than its shortest by `HOPELESS` and
    `MARGIN`: they would fit noise, and they cost most.
    """
    left, bits = np.arange(len(labels)), np.full((len(labels), len(penalties)), np.inf)
    last: list[Fits | None] = [None] * len(parts)
    found: dict[int, Fits] = {}
    inner = [(design[known], design[sent], labels[:, known], labels[:, sent]) for known, sent in parts]
    for at in np.argsort(penalties):
        bits[left, at] = 0.0
        for number, (known, held, taught, sent) in enumerate(inner):
            given = (known, energy, taught[left], classes, np.full(len(left), penalties[at]))
            last[number] = fits = logistic_regressions(*given, tolerance=tolerance, start=last[number])
            bits[left, at] += _label_bits(held, fits, sent[left], len(known)).sum(1)
        least = bits[left].min(1)
        found |= {int(left[row]): fits.of(row) for row in np.flatnonzero(bits[left, at] == least)}
        hopeful = bits[left, at] <= HOPELESS * least + MARGIN
        left, last = left[hopeful], [one and one.of(hopeful) for one in last]
        if not len(left):
            break
    return bits, Fits(*map(np.stack, zip(*(found[task] for task in range(len(labels))), strict=True)))


def _newton_step(
    design: NDArray[Any], chance: Floats, slope: Floats, scale: Floats, penalty: Floats, least: float
) -> Floats:
    """Return −H⁻¹ slope for each fit, with a precision that matches the slope; a gain below `least` is ignored.

    All is in the precision of `design`: the next slope corrects an error. A direction without curvature ends the step:
    the same change of all classes' logits has none.
    """
    whole, rounding = _dot(slope, slope / scale), 10 * np.finfo(design.dtype).eps
    unit = np.sqrt(np.maximum(whole, 1e-300))[:, None, None]
    enough = np.maximum(np.minimum(COARSE**2, whole / len(design)), np.maximum(least / unit[:, 0, 0] ** 2, rounding))
    chance, rest, scale, penalty = (part.astype(design.dtype) for part in (chance, -slope / unit, scale, penalty))
    found, left = np.zeros_like(slope), np.arange(len(slope))
    step, direction = np.zeros_like(rest), rest / scale
    size = _dot(rest, direction)
    for _ in range(PRODUCTS):
        if not (going := size > enough).all():
            found[left] = step
            if not going.any():
                break
            left, size, enough = left[going], size[going], enough[going]
            step, rest, direction, chance, scale, penalty = (
                part[going] for part in (step, rest, direction, chance, scale, penalty)
            )
        moved = chance * _logits(design, direction)
        moved -= chance * moved.sum(1, keepdims=True)
        bent = _onto(moved, design) + penalty * direction
        curve = _dot(direction, bent)
        curve[curve <= rounding * _dot(direction, scale * direction)] = np.inf
        length = (size / curve)[:, None, None]
        step, rest = step + length * direction, rest - length * bent
        ahead = rest / scale
        before, size = size, _dot(rest, ahead) * np.isfinite(curve)
        direction = ahead + (size / before)[:, None, None] * direction
    found[left] = step
    return np.asarray(found * unit)


def _line_search(
    design: Floats,
    absent: Floats,
    target: Floats,
    penalty: Floats,
    before: tuple[Floats, Floats, Floats],
    step: Floats,
    slope: Floats,
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return coefficients, logits and loss after a step halved until it pays (Armijo), and which fits improved.

    In the other fits only rounding is left.
    """
    at, raw, loss = before
    length, gain = np.ones(len(at)), 1e-4 * _dot(step, slope)
    for _ in range(HALVINGS):
        here = at + length[:, None, None] * step
        logits = _logits(design, here, absent)
        value = _losses(logits, target, here, penalty)
        worse = ~(value <= loss + length * gain)  # a loss of NaN counts as worse
        if not worse.any():
            return here, logits, value, ~worse
        length = np.where(worse, length / 2, length)
    stay = worse[:, None, None]
    return np.where(stay, at, here), np.where(stay, raw, logits), np.where(worse, loss, value), ~worse


def _logits(design: NDArray[Any], coefficients: NDArray[Any], absent: Floats | None = None) -> Floats:
    logits = (coefficients.reshape(-1, design.shape[1]) @ design.T).reshape(*coefficients.shape[:2], -1)
    return np.asarray(logits if absent is None else logits + absent[..., None])


def _onto(values: NDArray[Any], design: NDArray[Any]) -> Floats:
    """Project values `[fits, classes, points]` onto the axes."""
    return np.asarray((values.reshape(-1, len(design)) @ design).reshape(*values.shape[:2], -1))


def _of_classes(raw: Floats) -> Floats:
    if raw.shape[1] == 1:
        return np.concatenate([expit(-raw), expit(raw)], 1)
    found = np.exp(raw - raw.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))


def _losses(raw: Floats, target: Floats, at: Floats, penalty: Floats) -> Floats:
    if raw.shape[1] == 1:
        whole = np.logaddexp(0, raw[:, 0])
    else:
        most = raw.max(1)
        whole = most + np.log(np.exp(raw - most[:, None]).sum(1))
    own = np.where(target > 0, raw, 0.0).sum(1)
    return np.asarray((whole - own).sum(1) + 0.5 * (penalty * at**2).sum((1, 2)))


def _dot(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    return np.asarray(np.einsum("pkr,pkr->p", one, other))


def _label_bits(design: Floats, fits: Fits, labels: Ints, trained: int) -> Floats:
    """Return each label's bits `[fits, points]`, smoothed by half a point per class (Krichevsky, Trofimov 1981)."""
    found = chances(design, fits)
    chance = np.take_along_axis(found, labels[:, None], 1)[:, 0]
    return np.asarray(-np.log2((trained * chance + 0.5) / (trained + found.shape[1] / 2)))
