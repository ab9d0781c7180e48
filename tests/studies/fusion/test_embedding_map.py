"""The embedding space: every token at its position, arms by colour and marker, positions by shade."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from isoscope.figures.style import ARM_COLOURS, to_svg
from isoscope.studies.fusion.embedding_map import scatter

ARMS = ("additive", "conv2d", "fft")


def points(n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = [pd.DataFrame({"arm": arm, "x": rng.normal(size=n), "y": rng.normal(size=n)}) for arm in ARMS]
    return pd.concat(parts).assign(position=rng.integers(0, 9, 3 * n))


def of_arm(axes: Axes, index: int) -> np.ndarray:
    """Coordinates of the points in the arm's colour, sorted."""
    found = [one.get_offsets() for one in axes.collections if to_hex(one.get_facecolors()[0]) == ARM_COLOURS[index]]
    return np.sort(np.concatenate(found), axis=0)


def limits(figure: Figure) -> list[float]:
    return [float(np.ptp(limit)) for limit in (figure.axes[0].get_xlim(), figure.axes[0].get_ylim())]


def test_every_token_is_drawn_in_its_arms_colour() -> None:
    made = points()
    figure = scatter(made, method="t-SNE")
    for index, arm in enumerate(ARMS):
        own = made[made["arm"] == arm][["x", "y"]].to_numpy()
        np.testing.assert_array_equal(of_arm(figure.axes[0], index), np.sort(own, axis=0))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"{arm}, n = 30 tokens" for arm in ARMS]
    assert sum(len(one.get_offsets()) for one in figure.axes[1].collections) == 90
    assert limits(figure)[0] == pytest.approx(limits(figure)[1])


def test_one_scale_for_positions() -> None:
    made = points()
    axes = scatter(made, method="t-SNE").axes[1]
    shades = {to_hex(colour) for one in axes.collections for colour in one.get_facecolors()}
    assert len(shades) == made["position"].nunique()


def test_ticks_are_off_for_tsne_alone() -> None:
    assert len(scatter(points(), method="t-SNE").axes[0].get_xticks()) == 0
    axes = scatter(points(), method="PCA").axes[0]
    assert len(axes.get_xticks()) > 0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("First component", "Second component")


def test_pca_is_never_drawn_from_tsne_coordinates() -> None:
    made = points().assign(pc1=lambda rows: 5 * rows["x"], pc2=lambda rows: rows["y"] - 1)
    own = made[made["arm"] == "fft"][["pc1", "pc2"]].to_numpy()
    np.testing.assert_array_equal(of_arm(scatter(made, method="PCA").axes[0], 2), np.sort(own, axis=0))


def test_without_positions_there_is_one_panel() -> None:
    assert len(scatter(points().drop(columns="position"), method="PCA").axes) == 1
    assert len(scatter(points().assign(position=np.nan), method="PCA").axes) == 1


def test_equal_points_give_equal_bytes() -> None:
    assert to_svg(scatter(points(), method="t-SNE")) == to_svg(scatter(points(), method="t-SNE"))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="no point given"):
        scatter(points()[:0], method="PCA")
