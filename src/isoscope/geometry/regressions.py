"""Fit logistic regressions of the same points to many labels with many penalties, all at once.

Truncated Newton steps: preconditioned conjugate gradients solve for the step, and all fits share their products.
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
COARSE = 0.25  # share of the gradient that a first step may leave; later steps leave less, by its square root


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
    raw = _logits(design, at, added)
    loss = _losses(raw, target, at, penalty)
    for _ in range(STEPS):
        chance = _of_classes(raw)[:, -target.shape[1] :]
        slope = _onto(chance - target, design) + penalty * at
        scale = (chance * (1 - chance)).mean(2)[..., None] * energy + penalty
        scale = np.maximum(scale, 1e-12 * energy)  # for probabilities of 0 or 1
        step = _newton_step(design, chance, slope, scale, penalty, max(1e-8 * tolerance, 1e-20) * len(design))
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


def regression_path(
    design: Floats, energy: Floats, labels: Ints, classes: int, strengths: Sequence[float], *, tolerance: float
) -> Fits:
    """Fit labels `[tasks, points]` with each C of `strengths`: all C of the first task, then of the next.

    C rises, and each fit begins at the last: with a weak penalty and more axes than points, a step from zero overshoots
    and hundreds of short steps follow. Other arguments and errors as in `logistic_regressions`.
    """
    found: dict[float, Fits] = {}
    last: Fits | None = None
    for c in sorted(strengths):
        strength = np.full(len(labels), c)
        found[c] = last = logistic_regressions(
            design, energy, labels, classes, strength, tolerance=tolerance, start=last
        )
    each = (np.stack(parts, 1) for parts in zip(*(found[c] for c in strengths), strict=True))
    return Fits(*(part.reshape(-1, *part.shape[2:]) for part in each))


def chances(design: Floats, fits: Fits) -> Floats:
    """Return probabilities `[fits, classes, points]`."""
    return _of_classes(_logits(design, *fits))


def _newton_step(design: Floats, chance: Floats, slope: Floats, scale: Floats, penalty: Floats, least: float) -> Floats:
    """Return −H⁻¹ slope for each fit, with a precision that matches the slope; a gain below `least` is ignored."""
    found, left, rest = np.zeros_like(slope), np.arange(len(slope)), -slope
    step, direction = np.zeros_like(rest), rest / scale
    size = _dot(rest, direction)
    enough = np.maximum(np.minimum(COARSE**2, size / len(design)) * size, least)
    for _ in range(PRODUCTS):
        if not (going := size > enough).all():
            found[left] = step
            if not going.any():
                break
            left, size, enough = left[going], size[going], enough[going]
            step, rest, direction, chance, scale, penalty = (
                part[going] for part in (step, rest, direction, chance, scale, penalty)
            )
        moved = chance * _logits(design, direction, 0.0)
        moved -= chance * moved.sum(1, keepdims=True)
        bent = _onto(moved, design) + penalty * direction
        length = (size / np.maximum(_dot(direction, bent), 1e-300))[:, None, None]
        step, rest = step + length * direction, rest - length * bent
        ahead = rest / scale
        before, size = size, _dot(rest, ahead)
        direction = ahead + (size / before)[:, None, None] * direction
    found[left] = step
    return found


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


def _logits(design: Floats, coefficients: Floats, absent: Floats | float) -> Floats:
    logits = coefficients.reshape(-1, design.shape[1]) @ design.T
    return np.asarray(logits.reshape(*coefficients.shape[:2], -1) + np.asarray(absent)[..., None])


def _onto(values: Floats, design: Floats) -> Floats:
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


def _dot(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.einsum("pkr,pkr->p", one, other))
