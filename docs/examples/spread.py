"""A penalty of one's own: the mean variance of the points, held at a target."""

from pydantic import PositiveFloat

from isoscope.plugins import penalty


@penalty("spread")
def spread(target: PositiveFloat):
    """The squared distance of the mean variance over dimensions from `target`; of one point as of any number."""
    return lambda points, labels: ((points - points.mean(0)).square().mean() - target) ** 2
