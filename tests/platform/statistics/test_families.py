"""Families of tests are counted wherever p is corrected, and chance alone gives what is said."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from isoscope.platform.statistics.differences import differences
from isoscope.platform.statistics.families import by_chance, families
from isoscope.platform.statistics.paired import holm, in_family, paired_t


def test_every_way_to_correct_p_is_counted() -> None:
    draw = np.random.default_rng(0)
    tests = [paired_t(draw.normal(size=4).tolist(), confidence=0.95) for _ in range(3)]
    rows = [(figure, arm, seed, draw.normal()) for figure in "xyz" for arm in "abc" for seed in range(3)]
    with families() as found:
        corrected = holm([0.01, np.nan, 0.2])
        in_family(tests, confidence=0.95, power=0.8)
        differences(pd.DataFrame(rows, columns=["figure", "arm", "seed", "value"]), confidence=0.95, power=0.8)
    assert found[0] == corrected
    assert [len(one) for one in found] == [3, 3, 2, 2, 2]
    holm([0.5])
    assert len(found) == 5, "outside the block nothing is counted"


def test_blocks_do_not_share_their_families() -> None:
    with families() as outer:
        with families() as inner:
            holm([0.5])
        holm([0.1])
    assert (inner, outer) == ([[0.5]], [[0.1]])


@pytest.mark.parametrize("tests", [1, 3, 24])
@pytest.mark.parametrize("shared", [0.0, 0.9], ids=["independent", "dependent"])
def test_chance_gives_a_twentieth_of_a_finding_per_family(tests: int, shared: float) -> None:
    """3,000 families of t tests at 5 seeds, of true differences of 0; the standard error is at most .012."""
    draw = np.random.default_rng(tests)
    found = 0
    for _ in range(3000):
        noise = np.sqrt(shared) * draw.normal(size=(5, 1)) + np.sqrt(1 - shared) * draw.normal(size=(5, tests))
        t = noise.mean(0) / (noise.std(0, ddof=1) / np.sqrt(5))
        found += sum(p < 0.05 for p in holm((2 * stats.t.sf(np.abs(t), 4)).tolist()))
    assert found / 3000 == pytest.approx(by_chance(1, confidence=0.95), abs=0.03)
