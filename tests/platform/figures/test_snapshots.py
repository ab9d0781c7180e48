"""Shared parts of figures over training, and maps on one scale."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from isoscope import plugins
from isoscope.base.built_in import MEASURES
from isoscope.geometry.dimension import Estimate
from isoscope.platform.config.declared import known, natural
from isoscope.platform.figures.line_form import log_steps
from isoscope.platform.figures.matrix_form import beyond
from isoscope.platform.figures.snapshots import (
    TWIN,
    at_chosen,
    at_ends,
    band,
    chosen,
    common,
    moments_of,
    prepared,
    seeds_of,
    trained,
    trained_seeds_of,
)
from isoscope.states.cloud import Cell
from isoscope.states.measures import measure


def runs(**best: int) -> pd.DataFrame:
    """Runs `arm_seed=chosen step` with snapshots 0, 4 and 16, and a twin."""
    rows = [
        {"arm": name[:-1], "seed": int(name[-1]), "step": step, "best": step == at, "value": float(step or 0)}
        for name, at in best.items()
        for step in (16, None, 0, 4)
    ]
    return prepared(pd.DataFrame(rows).astype({"step": "Int64"}))


def test_rows_have_a_column_arms_an_order_and_seeds_a_number() -> None:
    assert runs(fft0=4)["column"].tolist() == [16, TWIN, 0, 4], "the twin has its own column"
    table = runs(fft0=4, additive0=4, fft1=4)
    assert seeds_of(runs(fft0=4)) == "n = 1 seed"
    assert seeds_of(table) == "n = 2 seeds"
    with pytest.raises(ValueError, match="no rows"):
        prepared(table[:0])


def test_runs_that_stopped_early_are_said_and_the_twin_is_none_of_them() -> None:
    table = runs(fft0=4, fft1=4, fft2=4)
    assert trained_seeds_of(table) == "n = 3 seeds"
    fewer = table[~((table["seed"] == 2) & (table["column"] == 16))]
    assert trained_seeds_of(fewer) == "n = 3 seeds, to update 4"


def test_a_mean_over_seeds_is_drawn_only_where_every_seed_of_the_arm_has_the_update() -> None:
    """The chosen snapshot of a single seed became a point of the mean, and its value a false peak."""
    table = runs(fft0=4, fft1=4, additive0=4)
    table = table[~((table["arm"] == "fft") & (table["seed"] == 1) & (table["column"] == 4))]
    assert set(common(table).groupby("arm")["column"].unique()["fft"]) == {TWIN, 0, 16}
    assert sorted(trained(table)["column"]) == [0, 0, 0, 4, 16, 16, 16], "the other arm keeps it"


def test_a_band_ends_where_the_metric_ends() -> None:
    low, high = band([0.1, 0.5, -0.1], [0.2, np.nan, 0.05], (0.0, 1.0))
    np.testing.assert_allclose(low, [0.0, 0.5, -0.1], err_msg="a corrected metric's mean may be below 0")
    np.testing.assert_allclose(high, [0.3, 0.5, -0.05])
    assert band(0.9, 0.2)[1] == pytest.approx(1.1), "without a range"
    assert natural("validation/f1") == natural("step/a_1") == (0.0, 1.0)
    assert natural("validation/loss") == (None, None)


def test_the_chosen_step_is_the_marked_one_else_the_last() -> None:
    table = runs(fft0=4, fft1=-9)
    assert chosen(table).tolist() == [4] * 4 + [16] * 4
    table.loc[(table["seed"] == 0) & (table["column"] == 0), "best"] = True
    assert chosen(table).tolist() == [0] * 4 + [16] * 4, "the first of two"
    assert set(chosen(table.drop(columns="best"))) == {16}
    rows = at_chosen(table)
    assert list(zip(rows["seed"], rows["column"], strict=True)) == [(0, 0), (1, 16)]


def test_the_ends_of_a_run_are_its_first_and_its_chosen_snapshot() -> None:
    found = at_ends(runs(fft0=4, additive0=0))
    rows = set(found[["arm", "end", "column"]].itertuples(index=False, name=None))
    assert rows == {("fft", "first", 0), ("fft", "chosen", 4), ("additive", "first", 0), ("additive", "chosen", 0)}
    assert moments_of(found) == {"first": "first snapshot (update 0)", "chosen": "chosen epoch (update 0 or 4)"}
    assert set(found["moment"]) == {*moments_of(found).values()}
    many = pd.concat([found, *(found.assign(end="chosen", column=step) for step in range(4))])
    assert moments_of(many)["chosen"] == "chosen epoch"


@pytest.mark.parametrize("last, ticks", [(0, [0, 1]), (9, [0, 1]), (10, [0, 1, 10]), (948, [0, 1, 10, 100])])
def test_the_axis_of_steps_has_nought_and_powers_of_ten(last: int, ticks: list[int]) -> None:
    axes = Figure().subplots()
    log_steps(axes, last)
    assert axes.get_xticks().tolist() == ticks
    low, high = axes.get_xlim()
    assert low < 0 <= last < high
    short = axes.get_xticks(minor=True)
    assert {2 * power for power in (1, 10, 100) if 2 * power <= last} <= set(short) <= set(range(2, last + 1))
    places = axes.transData.transform([(step, 0) for step in (0, 1, 10, 100)])[:, 0]
    assert (np.diff(places) > 0).all()
    assert np.diff(places)[1] == pytest.approx(np.diff(places)[2]), "logarithmic from 1 on"


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
    own = [one for one in MEASURES if plugins.MEASURES[one].of != "pairs"]
    found = {name: value for one in own for name, value in measure(one)(cell).items()}
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


def test_of_a_checkpoint_the_control_comes_first_as_the_first_snapshot_does() -> None:
    """Hollow marks are of the first end in the rows, and captions say so."""
    table = pd.DataFrame({"checkpoint": ["one"] * 4, "step": [0.0, None, 0.0, None], "value": [1.0, 2.0, 3.0, 4.0]})
    found = at_ends(table)
    assert found["end"].tolist() == ["first", "first", "chosen", "chosen"]
    assert found["value"].tolist() == [2.0, 4.0, 1.0, 3.0]
