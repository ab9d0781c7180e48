"""Compute principal planes of many frames of the same points, aligned so that frames can be compared."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import orthogonal_procrustes, subspace_angles

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.moments import Floats, as_cloud, centre

Alignment = Literal["joint", "procrustes", "sign"]


class Planes(NamedTuple):
    """Principal planes of F frames of n points.

    - `coordinates` `[F, n, 2]`.
    - `explained` `[F, 2]`: shares of a frame's own variance along its two axes. NaN for a frame that is one point many
      times; its angles have no meaning either.
    - `angles` `[F, 2]`: principal angles in degrees, the larger first, between a frame's plane and that of the
      reference frame (joint: between its own principal plane and the common plane).
    - `reference`: the frame that others are aligned to.
    """

    coordinates: Floats
    explained: Floats
    angles: Floats
    reference: int


def planes(frames: Iterable[ArrayLike], alignment: Alignment, *, reference: int = -1) -> Planes:
    """Return PC1 and PC2 of each frame `[F, n, d]` of the same n points.

    - joint: one PCA over all frames, each frame centred (else the drift of the means dominates), so all frames share
      their axes.
    - procrustes: a frame's own plane, rotated or reflected to match the reference frame's (least squares over points).
    - sign: a frame's own components, each with the sign that correlates with the previous frame.

    Raises `InputError` for another alignment, for fewer than 3 points or 2 dimensions, and for a reference that is not
    a frame.
    """
    clouds = [as_cloud(frame, least=3) for frame in np.asarray([on_host(one) for one in frames])]
    if not -len(clouds) <= reference < len(clouds):
        raise InputError(f"reference: {reference}, but there are {len(clouds)} frames")
    reference %= len(clouds)
    centred = [centre(cloud) for cloud in clouds]
    own = [_components(cloud) for cloud in centred]
    common = [_components(np.concatenate(centred))] * len(clouds) if alignment == "joint" else own
    scores = [cloud @ axes for cloud, axes in zip(centred, common, strict=True)]
    if alignment == "procrustes":
        scores = [score @ orthogonal_procrustes(score, scores[reference])[0] for score in scores]
    elif alignment == "sign":
        for before, score in pairwise(scores):
            score *= np.where((before * score).sum(0) < 0, -1.0, 1.0)
    elif alignment != "joint":
        raise InputError(f"alignment: {alignment!r} is none of joint, procrustes, sign")
    angles = [np.degrees(subspace_angles(axes, common[reference])) for axes in own]
    explained = [
        (score**2).sum(0) / total if (total := (cloud**2).sum()) > 0 else np.full(2, np.nan)
        for score, cloud in zip(scores, centred, strict=True)
    ]
    return Planes(np.stack(scores), np.stack(explained), np.stack(angles), reference)


def _components(centred: Floats) -> Floats:
    """Return the two leading principal axes as columns `[d, 2]`, each with its largest entry positive."""
    n, d = centred.shape
    if d < 2:
        raise InputError(f"points: {d} dimension, a plane needs two")
    if n < d:
        values, left = np.linalg.eigh(centred @ centred.T)
        axes = centred.T @ left[:, :-3:-1] / np.sqrt(np.clip(values[:-3:-1], 1e-300, None))
        axes, _ = np.linalg.qr(axes)
    else:
        axes = np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    largest = axes[np.abs(axes).argmax(0), range(2)]
    return axes * np.where(largest < 0, -1.0, 1.0)
