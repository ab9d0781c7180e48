"""Displayed numbers read back as their values."""

import pytest

from isoscope.platform.figures import numbers
from isoscope.platform.statistics.paired import Interval


@pytest.mark.parametrize(
    "written, expected",
    [
        (numbers.score(0.91249), "0.912"),
        (numbers.score(-0.5), "−0.500"),
        (numbers.score(None), "–"),
        (numbers.signed(0.0315), "+0.032"),
        (numbers.signed(-0.0315), "−0.032"),
        (numbers.spread(0.9, 0.01), "0.900 ± 0.010"),
        (numbers.spread(0.9, None), "0.900"),
        (numbers.interval(Interval(-0.1, 0.2)), "[−0.100, +0.200]"),
        (numbers.interval(None), "–"),
        (numbers.probability(0.0004), "< .001"),
        (numbers.probability(0.0432), "0.043"),
        (numbers.probability(1.0), "1"),
        (numbers.duration(3.21), "3.2 s"),
        (numbers.duration(59.97), "60.0 s"),
        (numbers.duration(125), "2 min 5 s"),
        (numbers.duration(3 * 3600 + 125), "3 h 2 min"),
        (numbers.duration(None), "–"),
        (numbers.count(1, "study", "studies"), "1 study"),
        (numbers.count(1200, "study", "studies"), "1,200 studies"),
        (numbers.count(3, "seed"), "3 seeds"),
    ],
)
def test_written(written: str, expected: str) -> None:
    assert written == expected
