"""A penalty of one's own: the mean spread of the points, held at a target."""

from pydantic import PositiveFloat

from isoscope.plugins import penalty


@penalty("spread")
def spread(target: PositiveFloat):
    """The squared distance of the mean standard deviation over dimensions from `target`."""
    return lambda points, labels: (points.std(0).mean() - target) ** 2
