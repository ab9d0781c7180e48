"""A cell's spectra, subsamples and twin, and the test for coinciding points."""

from typing import Any

import numpy as np
import pytest

from isoscope.geometry.moments import ALIKE, Floats, as_cloud
from isoscope.states.cloud import Cell

N, D = 50, 7
LABELS = np.arange(N) % 3


def noise(n: int = N, d: int = D, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, d))


def cell(points: Any, **changes: Any) -> Cell:
    given: dict[str, Any] = {"labels": None, "groups": np.arange(len(points)), "names": None, "attributes": {}}
    return Cell(as_cloud(points), **given | {"subsample": 16, "draws": 6, "confidence": 0.9, "seed": 0} | changes)


def test_points_that_differ_by_less_than_rounding_of_their_length_are_one() -> None:
    line = np.zeros((N, D))
    line[:, 0] = np.sqrt(3) * np.linspace(-1.0, 1.0, N)  # spread 1
    for share, degenerate in ((0.5 * ALIKE, True), (2 * ALIKE, False)):
        made = cell(share * line + np.eye(D)[1])
        assert (made.fault == "all points are one") is degenerate
        assert cell(1e-8 * made.points).fault == made.fault
        assert cell(1e8 * made.points).fault == made.fault
    for points in (np.zeros((4, 3)), np.full((4, 3), 0.1), np.ones((1, 3)), np.full((90, 3), 1 / 3, np.float32)):
        assert cell(points).fault == "all points are one"
    assert cell(noise() + 1000.0).fault is None


def test_sentences_that_share_their_vectors_have_no_geometry_of_their_own() -> None:
    """[CLS] that sees only the first word: as many vectors as first words."""
    first = np.random.default_rng(0).integers(0, 10, N)
    shared = noise(10)[first]
    assert cell(shared).fault == f"only {len(set(first))} of {N} vectors differ"
    assert cell(shared + 1e-3 * noise()).fault is None
    assert cell(shared, names=[str(one) for one in first]).fault is None, "a word's vector may be its type's"


def test_subsamples_hang_on_the_seed_and_the_number_of_points_alone() -> None:
    made = cell(noise()).subsamples
    assert [len(rows) for rows in made] == [16] * 6
    for rows in made:
        assert (np.diff(rows) > 0).all()  # without replacement
        assert 0 <= rows[0] <= rows[-1] < N
    other = cell(noise(d=3, seed=9), labels=LABELS, confidence=0.5).subsamples
    np.testing.assert_array_equal(made, other)
    assert not np.array_equal(made, cell(noise(), seed=1).subsamples)
    assert len({tuple(rows) for rows in made}) == 6
    more = cell(noise(), draws=9).subsamples
    np.testing.assert_array_equal(made, more[:6])


def test_a_figure_at_a_fixed_n_is_a_mean_over_subsamples() -> None:
    points = noise()
    made = cell(points, draws=40)
    found = made.at_fixed_n(lambda few: float(few[:, 0].max()))
    figures = [points[rows, 0].max() for rows in made.subsamples]
    assert found.value == pytest.approx(np.mean(figures))
    assert found.low < found.value < found.high
    assert cell(points, draws=40, confidence=0.5).at_fixed_n(lambda few: float(few[:, 0].max())).low > found.low
    assert made.at_fixed_n(len) == (16, 16, 16)
    assert np.isnan(cell(points, draws=1).at_fixed_n(lambda few: float(few[:, 0].max())).low)


@pytest.mark.parametrize("n", [40, 64, 400])
@pytest.mark.parametrize("figure, most", [(lambda few: float(few[:, 0].mean()), 0.945), (lambda few: a_1(few), 0.98)])
def test_the_interval_holds_the_figure_of_as_many_other_points(n: int, figure: Any, most: float) -> None:
    """In 90 % of 400 clouds (standard error 1.5 points), or somewhat more of a figure that is no sum over points.

    Quantiles of the subsamples, which overlap, hold it less often.
    """
    held = quantiles = 0
    for seed in range(400):
        made = cell(noise(n, seed=seed), draws=20, seed=seed)
        found, other = made.at_fixed_n(figure), figure(noise(16, seed=10_000 + seed))
        held += found.low <= other <= found.high
        low, high = np.quantile([figure(made.points[rows]) for rows in made.subsamples], [0.05, 0.95])
        quantiles += low <= other <= high
    assert 0.865 <= held / 400 <= most
    assert quantiles / 400 < 0.855


def a_1(few: Floats) -> float:
    """Share of the first direction."""
    values = np.linalg.svd(few, compute_uv=False) ** 2
    return float(values[0] / values.sum())


def test_fewer_points_than_a_subsample_are_all_taken() -> None:
    points = noise(10)
    found = cell(points).at_fixed_n(lambda few: float(few.sum()))
    assert found.value == pytest.approx(points.sum())
    assert np.isnan([found.low, found.high]).all(), "what is drawn from nothing more has no spread to show"
    assert np.isnan(cell(noise(31)).at_fixed_n(lambda few: float(few.sum())).low)
    assert cell(noise(32)).at_fixed_n(lambda few: float(few.sum())).low < np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_figure_that_one_subsample_lacks_is_none(bad: float) -> None:
    made = cell(noise())
    assert np.isnan(made.spread([1.0, bad, 2.0])).all()
    assert made.spread([1.0, 2.0]).value == 1.5


def test_the_twin_is_noise_with_the_same_labels() -> None:
    names = [f"word{one}" for one in range(2000)]
    labels = np.arange(2000) % 2
    made = cell(5.0 + 3.0 * noise(2000), labels=labels, names=names, attributes={"length": labels}, seed=3)
    twin = made.twin()
    assert twin.points.shape == made.points.shape
    for name in ("labels", "names", "attributes", "groups"):
        assert getattr(twin, name) is getattr(made, name), name
    np.testing.assert_array_equal(twin.subsamples, made.subsamples)
    # standard errors of the mean, 1/√2000, and of the 14,000 entries' variance, √(2/14000)
    assert np.abs(twin.points.mean(0)).max() < 4 / np.sqrt(2000)
    assert twin.points.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / 14000))
    np.testing.assert_array_equal(twin.points, made.twin().points)
    assert not np.array_equal(twin.points, cell(made.points, seed=4).twin().points)
