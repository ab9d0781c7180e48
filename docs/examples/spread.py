"""A penalty from a plugin: keep the mean variance of the points at a target."""

from pydantic import PositiveFloat

from isoscope.plugins import penalty


@penalty("spread")
def spread(target: PositiveFloat):
    """Return the squared distance between the mean variance over dimensions and `target`; also for a single point."""
    return lambda points, labels: ((points - points.mean(0)).square().mean() - target) ** 2
