"""Anisotropy of a cloud as figures of a run: shares of its largest directions, and what class separation explains."""

import numpy as np
import numpy.typing as npt

from isoscope.geometry.isotropy import shares
from isoscope.geometry.moments import between_share, centre, spectrum, within_classes

COMPONENTS = 3


def batch_figures(points: npt.ArrayLike) -> dict[str, float]:
    """`a_1` … `a_3` of the raw cloud, `a_1_centred` … of the centred one, and `n`, on which they depend."""
    cloud = np.asarray(points, dtype=np.float64)
    return {
        **_named(shares(spectrum(cloud, centred=False), COMPONENTS), ""),
        **_named(shares(spectrum(cloud), COMPONENTS), "_centred"),
        "n": float(len(cloud)),
    }


def sample_figures(points: npt.ArrayLike, labels: npt.ArrayLike) -> dict[str, float]:
    """Those of a batch, and: `a_1_within` … of the cloud with its classes' means taken off, `a_1_between` … of those
    means, and `between_share`, the share of the variance that lies between them.
    """
    cloud = np.asarray(points, dtype=np.float64)
    within = within_classes(cloud, labels)
    return {
        **batch_figures(cloud),
        **_named(shares(spectrum(within, centred=False), COMPONENTS), "_within"),
        **_named(shares(spectrum(centre(cloud) - within, centred=False), COMPONENTS), "_between"),
        "between_share": between_share(cloud, labels),
    }


def _named(values: npt.NDArray[np.float64], suffix: str) -> dict[str, float]:
    """Shares by name; one beyond the spectrum's length, or of a cloud of one place, has no name."""
    return {f"a_{k}{suffix}": float(value) for k, value in enumerate(values, start=1) if np.isfinite(value)}
