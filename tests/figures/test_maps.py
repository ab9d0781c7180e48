"""Maps on one scale: the given numbers, one range for all panels, arrows for numbers out of range."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from isoscope.figures.maps import PER_ROW, pictures
from isoscope.figures.style import WIDTH, to_svg


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
