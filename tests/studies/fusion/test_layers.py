"""Maps of layers by snapshots and curves over training: the table's means, fixed ranges, nothing without geometry."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.config.declared import natural, title
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.layers import CURVES, LAYERS, SHARED, UNDEFINED

Table = Callable[..., pd.DataFrame]
STEPS = (0, 1, 10, 100)
MAPS: Any = LAYERS.form
LINES: Any = CURVES.form


def test_cells_are_the_means_over_seeds(geometry: Table) -> None:
    table = geometry()
    found = MAPS.drawn(table)
    assert found["update"].unique().tolist() == ["random", *map(str, STEPS)]
    own = table.assign(update=table["step"].astype("string").fillna("random"))
    means = own.groupby(["arm", "layer", "update"])["value"].mean()
    for row in found.itertuples():
        np.testing.assert_allclose(row.value, means[row.arm, row.layer, row.update])
    picture = MAPS(table).axes[0]
    assert picture.get_title(loc="left") == "additive\nn = 3 seeds\nchosen: updates 1 to 100"
    assert picture.get_ylim() == (-0.5, 2.5)


def test_cells_without_geometry_and_without_a_number_differ_and_have_no_value(geometry: Table) -> None:
    table = geometry()
    table.loc[table["degenerate"], "value"] = 0.5  # whatever a table may say
    table.loc[(table["arm"] == "conv2d") & (table["layer"] == 1) & (table["step"] == 10), "value"] = np.nan
    found = MAPS.drawn(table)
    degenerate = found[found["gap"] == SHARED]
    assert set(zip(degenerate["arm"], degenerate["layer"], strict=True)) == {("additive", 0)}
    assert len(degenerate) == 5
    undefined = found[found["gap"] == UNDEFINED]
    assert undefined[["arm", "layer", "update"]].to_numpy().tolist() == [["conv2d", 1, "10"]]
    assert found.loc[found["gap"].notna(), "value"].isna().all()


@pytest.mark.parametrize("figure", ["avg_sim", "a_1", "silhouette", "isoscore", "linear_separability"])
def test_natural_ranges_are_pinned(geometry: Table, figure: str) -> None:
    limits = {axes.images[0].get_clim() for axes in MAPS(geometry(figures=[figure])).axes if axes.images}
    assert limits == {natural(figure)}


def test_other_figures_share_the_range_of_all_panels(geometry: Table) -> None:
    table = geometry(figures=["two_nn"], scale=20.0)
    means = table[~table["degenerate"]].groupby(["arm", "layer", "step"], dropna=False)["value"].mean()
    for axes in MAPS(table).axes[:2]:
        np.testing.assert_allclose(axes.images[0].get_clim(), (means.min(), means.max()))
    assert to_svg(MAPS(geometry(arms=("fft",), layers=1, figures=["two_nn"])))


def test_the_colour_bar_says_what_noise_gives(geometry: Table) -> None:
    table = geometry()
    label = MAPS.bar(MAPS.drawn(table))
    assert label == f"{title('avg_sim')}\nisotropic noise: 0.250 (n = 40, d = 8)"
    table.loc[table["arm"] == "conv2d", "baseline"] = 0.5
    assert "additive 0.250 (n = 40, d = 8); conv2d 0.500" in MAPS.bar(MAPS.drawn(table))


def test_a_snapshot_that_a_single_seed_has_is_no_column_and_no_point(geometry: Table) -> None:
    table = geometry(arms=("conv2d",))
    at_ten = table["step"].eq(10).fillna(False)
    table = table.assign(best=at_ten)[~(at_ten & (table["seed"] > 0))]
    assert MAPS.drawn(table)["update"].unique().tolist() == ["random", "0", "1", "100"]
    assert LINES.drawn(table)["column"].unique().tolist() == [0, 1, 100]


def test_lines_are_the_means_and_bands_the_sd(geometry: Table) -> None:
    table = geometry(figures=("avg_sim", "a_1")).assign(low=0.0, high=9.0, note="of single runs")
    found = LINES.drawn(table[table["layer"] > 0])
    own = table[table["layer"] > 0].dropna(subset="step")
    by_step = own.assign(figure=own["figure"].map(title)).groupby(["arm", "layer", "figure", "step"])["value"]
    keys = [*zip(found["arm"], found["layer"], found["figure"], found["column"], strict=True)]
    np.testing.assert_allclose(found["value"], by_step.mean()[keys])
    high = (by_step.mean() + by_step.std()).clip(upper=1.0)  # the end of both metrics' range
    np.testing.assert_allclose(found["high"], high[keys])
    assert found["baseline"].to_numpy() == pytest.approx(0.25)


def test_many_layers_are_thinned_out_evenly(geometry: Table) -> None:
    found = LINES.drawn(geometry(arms=("conv2d",), layers=13, seeds=1))
    assert sorted(found["layer"].unique()) == [0, 3, 6, 9, 12]


def test_a_long_study_stays_small(geometry: Table) -> None:
    table = geometry(arms=("a" * 90, "conv2d", "fft"), layers=13, steps=[2**k for k in range(25)])
    assert len(to_svg(MAPS(table))) < 200_000
