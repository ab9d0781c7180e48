"""Maps on one scale: the given numbers, one range for all panels, arrows for numbers out of range."""

import numpy as np
import pytest

from isoscope.base.built_in import MEASURES
from isoscope.geometry.dimension import Estimate
from isoscope.platform.config.declared import known, natural
from isoscope.platform.figures.matrix_form import beyond
from isoscope.states.cloud import Cell
from isoscope.states.measures import measure


@pytest.mark.parametrize(
    "values, ends",
    [
        ((0.0, 1.0), "neither"),
        ((-0.5, 1.0), "min"),
        ((0.0, 1.5), "max"),
        ((-0.5, 1.5), "both"),
        ((0, np.nan), "neither"),
    ],
)
def test_the_colour_bar_ends_in_arrows_where_values_lie_beyond(values: tuple[float, float], ends: str) -> None:
    assert beyond(values, 0.0, 1.0) == ends


SENTENCES = 60


def measured(kind: str, points: np.ndarray) -> dict[str, float]:
    """Every built-in figure of a cloud, of sentences (with classes and nuisances) or of words."""
    rows = np.arange(len(points))
    cell = Cell(
        points,
        labels=None if kind == "words" else rows % 2,
        groups=rows // 3 if kind == "words" else rows,
        names=[f"word {row % 7}" for row in rows] if kind == "words" else None,
        attributes=dict.fromkeys(("first_token", "second_token", "length"), rows % 4),
        subsample=30,
        draws=3,
        confidence=0.9,
        seed=0,
    )
    found = {name: value for one in MEASURES for name, value in measure(one)(cell).items()}
    return {name: value.value if isinstance(value, Estimate) else float(value) for name, value in found.items()}


@pytest.fixture(scope="module")
def clouds() -> list[dict[str, float]]:
    """Figures of four clouds: noise, a cone, two classes far apart, and opposite directions."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(SENTENCES, 6))
    apart = noise + 20.0 * (np.arange(SENTENCES) % 2)[:, None]
    opposite = np.where(np.arange(SENTENCES) % 2, 1.0, -1.0)[:, None] * np.eye(6)[0] + 0.01 * noise
    return [measured(kind, cloud) for kind in ("sentences", "words") for cloud in (noise, noise + 50, apart, opposite)]


def test_every_built_in_figure_has_a_name(clouds: list[dict[str, float]]) -> None:
    names = {name for cloud in clouds for name in cloud}
    assert len(names) > 30
    assert names <= set(known())


def test_no_two_figures_have_one_name() -> None:
    labels = [one.label for one in known().values()]
    assert len(labels) == len(set(labels))


def test_what_is_measured_lies_within_its_range(clouds: list[dict[str, float]]) -> None:
    beyond = [
        (name, value)
        for cloud in clouds
        for name, value in cloud.items()
        for low, high in [natural(name)]
        if low is not None and not (low - 1e-9 <= value <= high + 1e-9)
        if np.isfinite(value)
    ]
    # What is corrected for chance or for n, and an R² held out, can fall a little below 0.
    corrected = ("clusters_ami_", "isoscore_unbiased", "arch_score")
    assert [one for one in beyond if not one[0].startswith(corrected)] == []
    assert all(value < 0 for _, value in beyond)


def test_cosines_and_silhouettes_run_from_minus_one_and_are_met_below_zero(clouds: list[dict[str, float]]) -> None:
    signed = {name for cloud in clouds for name in cloud if (natural(name)[0] or 0.0) < 0}
    assert signed == {"avg_sim", "self_sim", "intra_sim", "intra_sim_left_out", "silhouette", "clusters_silhouette"}
    assert {natural(name) for name in signed} == {(-1.0, 1.0)}
    assert min(cloud["avg_sim"] for cloud in clouds if "avg_sim" in cloud) < 0
