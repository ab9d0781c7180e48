"""Feature dynamics: every sentence at its coordinates, one scale per row, coinciding points not drawn."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.feature_dynamics import CLASS_COLOURS, DYNAMICS, feature_dynamics

N, NAMES = 30, ("step-0", "step-8", "step-16")
LABELS = np.arange(N) % 2


def tables(layers: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    frames = pd.DataFrame(
        [
            {
                "layer": layer,
                "snapshot": name,
                "step": int(name[5:]),
                "explained_1": 0.5,
                "explained_2": 0.125,
                "reference": "step-8",
                "degenerate": layer == 0,
            }
            for layer in range(layers)
            for name in NAMES
        ]
    )
    planes = pd.concat(
        [
            pd.DataFrame({"layer": layer, "snapshot": name, "sentence": rng.permutation(N)}).assign(
                pc1=rng.normal(size=N) * (1 + number), pc2=rng.normal(size=N)
            )
            for layer in range(layers)
            for number, name in enumerate(NAMES)
        ]
    )
    return planes.assign(arm="fft", seed=0, label=LABELS[planes["sentence"]]), frames


def drawn(planes: pd.DataFrame, frames: pd.DataFrame, snapshots: tuple[str, ...] = NAMES) -> Figure:
    return feature_dynamics(planes[planes["snapshot"].isin(snapshots)], frames, ("negative", "positive"))


def test_points_are_the_tables_coloured_by_class() -> None:
    planes, frames = tables()
    panels = iter(drawn(planes, frames).axes)
    for layer in (2, 1):  # the last layer on top
        for name in NAMES:
            (points,) = next(panels).collections
            rows = planes[(planes["layer"] == layer) & (planes["snapshot"] == name)].set_index("sentence").sort_index()
            np.testing.assert_array_equal(points.get_offsets(), rows[["pc1", "pc2"]])
            assert [to_hex(one) for one in points.get_facecolors()] == [CLASS_COLOURS[label] for label in LABELS]


def test_a_cloud_fills_its_panel_and_its_size_stands_in_the_corner() -> None:
    planes, frames = tables()
    small = planes["snapshot"] == NAMES[0]
    planes.loc[small, ["pc1", "pc2"]] *= 0.01
    for axes in drawn(planes, frames).axes[:6]:
        points = np.asarray(axes.collections[0].get_offsets())
        spans = points.max(0) - points.min(0)
        for limits, values, span in zip((axes.get_xlim(), axes.get_ylim()), points.T, spans, strict=True):
            assert limits[0] < values.min() <= values.max() < limits[1]
            assert limits[1] - limits[0] < 1.3 * span
        assert axes.texts[0].get_text() == f"{spans[0]:.2g} × {spans[1]:.2g}"


def test_one_point_is_hatched_and_not_drawn() -> None:
    for axes in drawn(*tables()).axes[6:]:
        assert not axes.collections
        assert [patch.get_gid() for patch in axes.patches] == ["hatched"]
        assert [text.get_text() for text in axes.texts] == ["vectors shared"]


def test_titles_and_corners_say_which_snapshot_and_how_much() -> None:
    planes, frames = tables()
    figure = drawn(planes, frames)
    assert [axes.get_title() for axes in figure.axes[:3]] == ["update 0", "update 8\nchosen epoch", "update 16"]
    assert [text.get_text() for text in figure.axes[0].texts[1:]] == ["50 + 12"]
    epochs = frames.assign(epoch=frames["step"].map({0: 0.0, 8: 1.0}))
    titles = [axes.get_title() for axes in drawn(planes, epochs).axes[:3]]
    assert titles == ["update 0\nepoch 0", "update 8\nepoch 1, chosen", "update 16"]


def test_axes_that_snapshots_share_are_no_principal_components() -> None:
    planes, frames = tables()
    for how, said in {
        "joint": "first and second axis of the plane shared",
        "sign": "second principal component",
    }.items():
        about = frames.assign(alignment=how)
        assert said in drawn(planes, about).legends[0].get_title().get_text().replace("\n", " ")
        assert said in DYNAMICS.caption(planes, about)
        assert ("smaller share" in DYNAMICS.caption(planes, about)) == (how == "joint")
    assert "Hatched: sentences share their vectors; at layer 0" in DYNAMICS.caption(planes, frames)


def test_the_legend_names_every_class_and_tells_it_from_a_number() -> None:
    planes, frames = tables(2)

    def words(*names: str, title: str | None = None) -> list[str]:
        figure = feature_dynamics(planes, frames, names, title=title)
        return [figure.get_suptitle(), *(text.get_text() for text in figure.legends[0].get_texts())]

    assert words("negative", "positive") == ["fft, seed 0, n = 30 sentences", "negative", "positive"]
    assert words("0", "1", title="bert-base") == ["bert-base, n = 30 sentences", "class 0", "class 1"]


def test_many_points_become_one_picture_per_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    planes, frames = tables()
    assert "<image" not in to_svg(drawn(planes, frames, NAMES[:1]))
    monkeypatch.setattr("isoscope.studies.fusion.feature_dynamics.SHAPES", 10)
    svg = to_svg(drawn(planes, frames, NAMES[:1]))
    assert svg.count("<image") == 2
    assert svg == to_svg(drawn(planes, frames, NAMES[:1]))


def test_equal_tables_give_equal_bytes() -> None:
    assert to_svg(drawn(*tables(2))) == to_svg(drawn(*tables(2)))


def test_one_layer_at_one_snapshot_is_a_figure() -> None:
    planes, frames = (table[table["snapshot"] == "step-8"] for table in tables(1))
    figure = drawn(planes, frames, ("step-8",))
    assert [axes.get_title() for axes in figure.axes] == ["step-8"]
