"""Post-hoc isotropy: whitening and all-but-the-top, fitted on some representations and applied to others."""

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats, as_cloud


def all_but_the_top(points: npt.ArrayLike, fitted_on: npt.ArrayLike, components: int) -> Floats:
    """Subtract the mean and the first `components` principal directions of `fitted_on` `[m, d]` from `points` `[n, d]`.

    Mu and Viswanath 2018 (arXiv:1702.01417), who remove about d / 100 directions. Raises `InputError` for another
    width, and for more directions than exist.
    """
    cloud, mean, _, directions = _fit(points, fitted_on, components)
    centred = cloud - mean
    found: Floats = centred - centred @ directions.T @ directions
    return found


def whiten(points: npt.ArrayLike, fitted_on: npt.ArrayLike, components: int) -> Floats:
    """Whiten `points` `[n, d]`: the first `components` principal directions of `fitted_on` at variance 1, `[n, k]`.

    `(x − μ) U Λ^{−1/2}`, so the covariance of `fitted_on` becomes the identity. Su et al. 2021 (arXiv:2103.15316).
    Raises `InputError` for another width, and for more directions than have variance.
    """
    cloud, mean, variances, directions = _fit(points, fitted_on, components)
    if not variances[components - 1] > 1e-12 * variances[0]:
        found = int((variances > 1e-12 * variances[0]).sum())
        raise InputError(f"components: {components}, but only {found} directions have variance")
    whitened: Floats = (cloud - mean) @ directions.T / np.sqrt(variances[:components])
    return whitened


def _fit(points: npt.ArrayLike, fitted_on: npt.ArrayLike, components: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the cloud, and the mean, variances and first principal directions `[components, d]` of `fitted_on`."""
    cloud, reference = as_cloud(points), as_cloud(fitted_on, least=2)
    if cloud.shape[1] != reference.shape[1]:
        raise InputError(f"points: {cloud.shape[1]} dimensions, but fitted on {reference.shape[1]}")
    if not 1 <= components <= min(len(reference) - 1, reference.shape[1]):
        most = min(len(reference) - 1, reference.shape[1])
        raise InputError(f"components: {components}; expected 1 to {most}")
    mean = reference.mean(0)
    _, values, directions = np.linalg.svd(reference - mean, full_matrices=False)
    return cloud, mean, values**2 / (len(reference) - 1), directions[:components]
