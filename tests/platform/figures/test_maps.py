"""Maps on one scale: the given numbers, one range for all panels, arrows for numbers out of range."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from isoscope.geometry.dimension import Estimate
from isoscope.platform.config.declared import known, natural
from isoscope.platform.figures.maps import PER_ROW, pictures, scale_of
from isoscope.platform.figures.style import WIDTH, to_svg
from isoscope.states.cloud import Cell
from isoscope.states.measures import BUILT_IN, measure


def drawn(*matrices: np.ndarray, low: float = -1.0, high: float = 1.0) -> Figure:
    panels = [(f"panel {number}", matrix) for number, matrix in enumerate(matrices)]
    return pictures(panels, label="Cosine", low=low, high=high, colours="RdBu_r")[0]


def test_panels_show_their_numbers_on_one_range_and_leave_the_rest_empty() -> None:
    first, second = np.eye(3), np.array([[1.0, np.nan], [np.inf, 0.0]])
    figure, grid = pictures(
        [("a\nmean 0.1", first), ("b", second)], label="Cosine", low=-1.0, high=1.0, colours="RdBu_r"
    )
    shown = [axes.images[0].get_array() for axes in grid]
    np.testing.assert_array_equal(shown[0], first)
    assert np.ma.getmaskarray(shown[1]).tolist() == [[False, True], [True, False]]
    assert shown[1].compressed().tolist() == [1.0, 0.0]
    assert [axes.images[0].get_clim() for axes in grid] == [(-1.0, 1.0)] * 2
    assert [axes.get_title(loc="left") for axes in grid] == ["a\nmean 0.1", "b"]
    (bar,) = [axes for axes in figure.axes if axes not in grid]
    assert bar.get_ylabel() == "Cosine"


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
    figure = drawn(np.zeros((1, 2)), np.array([values]), low=0.0, high=1.0)
    bars = [axes.images[0].colorbar for axes in figure.axes if axes.images and axes.images[0].colorbar]
    assert [bar.extend for bar in bars] == [ends]


@pytest.mark.parametrize("panels", [1, PER_ROW, PER_ROW + 1])
def test_rows_are_filled_and_no_wider_than_a_page(panels: int) -> None:
    figure = drawn(*[np.eye(2)] * panels)
    assert figure.get_figwidth() <= WIDTH + 1e-9
    assert sum(bool(axes.images) for axes in figure.axes) == panels
    unused = [axes for axes in figure.axes if not axes.images and axes.get_label() != "<colorbar>"]
    assert len(unused) == (-panels % PER_ROW if panels > PER_ROW else 0)
    assert not any(axes.axison for axes in unused)


def test_a_long_title_is_wrapped_line_by_line() -> None:
    figure, grid = pictures(
        [("a name of very many words indeed\nmean 0.1", np.eye(2))] * PER_ROW,
        label="Cosine", low=-1.0, high=1.0, colours="RdBu_r",
    )  # fmt: skip
    title = grid[0].get_title(loc="left").split("\n")
    assert len(title) == 3
    assert title[-1] == "mean 0.1"
    assert to_svg(figure)


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
    found = {name: value for one in BUILT_IN for name, value in measure(one)(cell).items()}
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
    signed = {name for cloud in clouds for name in cloud if scale_of(name, []).diverging}
    assert signed == {"avg_sim", "self_sim", "intra_sim", "intra_sim_left_out", "silhouette", "clusters_silhouette"}
    assert {natural(name) for name in signed} == {(-1.0, 1.0)}
    assert min(cloud["avg_sim"] for cloud in clouds if "avg_sim" in cloud) < 0


def test_a_natural_range_stands_and_others_span_what_was_measured() -> None:
    assert scale_of("avg_sim", [0.4, 0.5])[1:] == (-1.0, 1.0, True)
    assert scale_of("two_nn", [3.0, np.nan, 7.5, np.inf])[1:] == (3.0, 7.5, False)
    assert scale_of("two_nn", [3.0, 3.0])[1:3] == (3.0, 4.0), "a range of no width has no colours"
    assert scale_of("two_nn", [np.nan])[1:3] == (None, None)
    assert scale_of("mean_norm", [1.0, 2.0]) == ("Mean norm", 1.0, 2.0, False), "a plugin's metric has its own name"
