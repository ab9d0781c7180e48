"""What a study of penalties claims, with the verdict of planted differences."""

import numpy as np
import pandas as pd

from isoscope.platform.statistics.differences import differences
from isoscope.studies.isotropy.claims import claims


def found(
    shift: float, spread: float, seeds: int, arms: tuple[str, ...] = ("none", "all")
) -> list[tuple[str, str, float | None]]:
    draws = np.random.default_rng(0)
    rows = [
        (arm, seed, f"step/{name}", 0.5 + shift * (arm == "all") + spread * draws.normal())
        for name in ("a_1", "a_2")
        for arm in arms
        for seed in range(seeds)
    ]
    table = differences(pd.DataFrame(rows, columns=["arm", "seed", "metric", "value"]), confidence=0.95, power=0.8)
    said = claims({"differences": table}, confidence=0.95, margin=0.01)
    return [(one.one, one.verdict.word, one.difference) for one in said]


def test_a_large_difference_holds_and_none_is_within_the_margin() -> None:
    ((arm, word, difference),) = found(-0.2, 0.005, 5)
    assert (arm, word) == ("all", "holds")
    assert difference is not None
    assert abs(difference + 0.2) < 0.02
    assert [word for _, word, _ in found(0.0, 0.001, 5)] == ["does not"]
    assert [word for _, word, _ in found(0.02, 0.05, 5)] == ["under-powered"]


def test_two_seeds_and_a_study_of_one_arm_claim_nothing() -> None:
    assert found(-0.2, 0.005, 2) == []
    assert found(-0.2, 0.005, 5, arms=("none",)) == []
