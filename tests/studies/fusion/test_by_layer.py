"""Geometry by layer: the table's values and intervals, twin and noise; no number without a value."""

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.by_layer import TRAINED, TWIN, profile
from isoscope.studies.fusion.layers import SHARED

FIGURES = ("avg_sim", "two_nn_at_n")


def table(checkpoints: tuple[str, ...] = ("encoder", "decoder")) -> pd.DataFrame:
    """Every metric at four layers of each checkpoint and its twin; points coincide at the first layer of `encoder`."""
    rng = np.random.default_rng(0)
    rows = []
    for checkpoint in checkpoints:
        for step in (0, None):
            for figure in FIGURES:
                for layer in (2, 0, 1, 3):  # in no order
                    value = np.nan if (one_point := checkpoint == "encoder" and layer == 0) else rng.uniform()
                    spread = 0.1 if figure == "two_nn_at_n" else np.nan
                    row = {"checkpoint": checkpoint, "step": step, "figure": figure, "layer": layer, "value": value}
                    more = {"low": value - spread, "high": value + spread, "baseline": 0.25, "degenerate": one_point}
                    rows.append(row | more | {"vectors": "first"})
    return pd.DataFrame(rows).astype({"step": "Int64"})


def test_values_are_the_tables_with_the_interval_of_the_checkpoint_alone() -> None:
    made, form = table(), profile(FIGURES)
    found = form.drawn(made)
    own = made.assign(weights=np.where(made["step"].isna(), TWIN, TRAINED))
    both = found.merge(own, on=["checkpoint", "weights", "figure", "layer"], suffixes=("", "_own"))
    assert len(both) == len(made) == len(found)
    np.testing.assert_array_equal(both["value"], both["value_own"])
    trained = both["weights"] == TRAINED
    np.testing.assert_array_equal(both.loc[trained, "high"], both.loc[trained, "high_own"])
    assert both.loc[~trained, "high"].isna().all()
    assert (both["at"] == both["layer"]).all()
    assert both.loc[both["gap"].notna(), ["checkpoint", "layer"]].drop_duplicates().to_numpy().tolist() == [
        ["encoder", 0]
    ]


def test_one_point_is_never_a_value_and_unmeasured_metrics_have_no_panel() -> None:
    made = table()
    made.loc[made["degenerate"], ["value", "low", "high"]] = -5.0  # whatever a table may say
    form = profile(("self_sim", "two_nn_at_n", "avg_sim"))
    assert form.drawn(made)["value"].min() > 0
    figure = form(made)
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
    assert titles == ["Intrinsic dimension (two neighbours), at equal n", "Mean cosine, points of different sentences"]
    assert SHARED in [text.get_text() for text in figure.legends[0].get_texts()]
    assert to_svg(figure) == to_svg(form(made))


def test_without_names_every_metric_of_the_table_has_a_panel_with_its_title() -> None:
    made = table().replace({"figure": {"avg_sim": "mean_norm"}})
    figure = profile(())(made)
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
    assert titles == ["Mean norm", "Intrinsic dimension (two neighbours), at equal n"]


def test_checkpoints_of_different_depth_share_an_axis_of_relative_depth() -> None:
    made = table()
    shallow = made[(made["checkpoint"] == "encoder") | (made["layer"] < 3)]  # 0 to 3, and 0 to 2
    form = profile(FIGURES)
    found = form.drawn(shallow).groupby("checkpoint")["at"].unique()
    assert sorted(found["encoder"]) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert sorted(found["decoder"]) == pytest.approx([0, 0.5, 1])
    assert form(shallow).axes[0].get_xlabel() == "Depth (layer / number of layers)"
    assert form(made).axes[0].get_xlabel() == "Layer"
