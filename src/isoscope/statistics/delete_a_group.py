"""Delete-a-group jackknife: the interval of an estimate, from the estimates without each of some groups."""

import numpy as np
import numpy.typing as npt
from scipy import stats

from isoscope.statistics.paired import Interval


def delete_a_group(estimate: float, without: npt.ArrayLike, *, confidence: float) -> Interval | None:
    """Return estimate ± t(G − 1)·se, se² = (G − 1)/G · Σ (estimate without g − their mean)², over G equal groups.

    Unlike a bootstrap of items it makes no item occur twice: two copies of an item are perfectly similar in any space.
    None if an estimate is not finite, or for fewer than two groups. Source: Kott 2001.
    """
    values = np.asarray(without, dtype=np.float64)
    if len(values) < 2 or not np.isfinite([estimate, *values]).all():
        return None
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * values.std() * np.sqrt(len(values) - 1))
    return Interval(estimate - half, estimate + half)
