"""Only a planted loop is found, at its moment; size and pose do not count; single points have no loops."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ripser import ripser
from scipy.stats import ortho_group

from isoscope.base.parquet import write_parquet
from isoscope.geometry.moments import Floats
from isoscope.states.sentence_tables import topology
from isoscope.states.trajectory import Trajectory
from probe_material import SNAPSHOTS, planted

POINTS = 90
"""Of a diagram."""
MOMENTS = {"first": "step-0", "chosen": "step-5", "last": "step-9", "random": "random"}


def circle(n: int) -> Floats:
    """A circle in four dimensions with a little noise."""
    angles = np.arange(n) * 2 * np.pi / n
    points = 0.02 * np.random.default_rng(0).standard_normal((n, 4))
    points[:, :2] += np.stack([np.cos(angles), np.sin(angles)], 1)
    return points


def blob(n: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, 4))


def moved(points: Floats) -> Floats:
    """Turned, seven times as large, elsewhere."""
    found: Floats = 7.0 * points @ ortho_group.rvs(4, random_state=np.random.default_rng(2)) + [3.0, -1.0, 0.5, 9.0]
    return found


def run(folder: Path, first: Any, chosen: Any, last: Any, random: Any) -> Trajectory:
    """The four clouds as the last layer, below it a layer that is none of them."""
    clouds = zip(SNAPSHOTS, (first, chosen, last, random), strict=True)
    return planted(folder, {one.name: {"first": np.stack([np.eye(*cloud.shape), cloud])} for one, cloud in clouds})


def longest(bars: pd.DataFrame, moment: str) -> list[float]:
    """Lengths of the loops of a moment, the longest first."""
    rows = bars[(bars["moment"] == moment) & (bars["degree"] == 1)]
    return sorted((rows["death"] - rows["birth"]).tolist(), reverse=True)


def away(distances: pd.DataFrame, moment: str) -> Floats:
    """Bottleneck and Wasserstein distance of a moment, by degree."""
    rows = distances[distances["moment"] == moment].sort_values("degree")
    return rows[["bottleneck", "wasserstein"]].to_numpy(float)


def test_a_loop_is_found_at_the_moment_it_was_planted_in(tmp_path: Path) -> None:
    bars, distances = topology(
        run(tmp_path, blob(60), circle(60), moved(circle(60)), blob(60, 3)), points=POINTS, seed=0
    )
    named = bars[["moment", "snapshot"]].drop_duplicates().set_index("moment")["snapshot"].to_dict()
    assert named == MOMENTS
    for moment in ("chosen", "last"):
        assert longest(bars, moment)[0] > 1.4
    for moment in ("first", "random"):
        assert longest(bars, moment)[0] < 0.6
    assert (away(distances, "chosen") == 0).all()
    assert away(distances, "last") == pytest.approx(0, abs=1e-4)  # single precision, 59 bars
    for moment in ("first", "random"):
        assert (away(distances, moment)[1] > 0.4).all()


def test_bars_are_those_of_ripser_in_units_of_the_clouds_size(tmp_path: Path) -> None:
    cloud = moved(blob(40))
    bars, distances = topology(run(tmp_path, cloud, circle(40), cloud, cloud), points=POINTS, seed=0)
    single = cloud.astype(np.float32).astype(float)
    size = np.sqrt(single.var(0).sum())
    for degree, expected in enumerate(ripser(single / size, maxdim=1)["dgms"]):
        expected = expected[np.isfinite(expected[:, 1])]
        rows = bars[(bars["moment"] == "first") & (bars["degree"] == degree)][["birth", "death"]].to_numpy()
        np.testing.assert_allclose(rows[rows[:, 1].argsort()], expected[expected[:, 1].argsort()], atol=1e-5)
    assert set(distances["n"]) == {40}


def test_of_many_sentences_the_same_few_are_taken_at_each_moment(tmp_path: Path) -> None:
    """Other rows of the same cloud would give other bars: the motion alone gives none."""
    cloud = blob(POINTS + 30)
    made = run(tmp_path, moved(cloud), cloud, -cloud, cloud)
    bars, distances = topology(made, points=POINTS, seed=0)
    assert set(distances["n"]) == {POINTS}
    for moment in MOMENTS:
        assert ((bars["moment"] == moment) & (bars["degree"] == 0)).sum() == POINTS - 1
        assert away(distances, moment) == pytest.approx(0, abs=1e-4)
    pd.testing.assert_frame_equal(bars, topology(made, points=POINTS, seed=0)[0])
    other = topology(made, points=POINTS, seed=1)[0]
    assert not other.equals(bars)


ONE = np.tile(np.random.default_rng(4).standard_normal(4), (30, 1))


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_a_moment_whose_points_are_all_one_has_no_bars(tmp_path: Path, noise: float) -> None:
    """Points that differ only by rounding have no loops either; scaled to size 1 they would look like a cloud."""
    collapsed = ONE + noise * blob(30)
    bars, distances = topology(
        run(tmp_path / "first", collapsed, blob(30), circle(30), collapsed), points=POINTS, seed=0
    )
    assert set(bars["moment"]) == set(distances["moment"]) == {"chosen", "last"}
    bars, distances = topology(
        run(tmp_path / "chosen", blob(30), collapsed, circle(30), blob(30)), points=POINTS, seed=0
    )
    assert set(bars["moment"]) == {"first", "last", "random"}
    assert distances.empty  # to what


def test_tables_without_a_bar_are_empty_and_can_be_kept(tmp_path: Path) -> None:
    for place, table in enumerate(topology(run(tmp_path, ONE, ONE, ONE, ONE), points=POINTS, seed=0)):
        write_parquet(table, tmp_path / f"{place}.parquet")
        assert len(pd.read_parquet(tmp_path / f"{place}.parquet")) == len(table) == 0


def test_a_run_of_one_snapshot_has_it_at_every_moment_and_no_twin_if_there_is_none(tmp_path: Path) -> None:
    only = SNAPSHOTS[1]
    made = planted(tmp_path, {only.name: {"first": blob(20)[None]}}, snapshots=[only])
    assert made.moments == dict.fromkeys(("first", "chosen", "last"), only)
    assert (topology(made, points=POINTS, seed=0)[1]["bottleneck"] == 0).all()
