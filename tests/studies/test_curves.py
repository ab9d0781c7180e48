"""Metrics by epoch, per run and over seeds, and their averages over the end of training."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from finished_runs import write_metrics, write_run
from isoscope.base.errors import InputError
from isoscope.studies.curves import averages, bands, compared, curves
from penalty_material import EVERY, LEVELS, UPDATES, points

HALF = {"name": "train/loss", "value": 1.0, "step": 3, "epoch": 0.5}


def test_every_point_of_every_run_is_there(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, arm, seed) for arm in ("conv2d", "additive") for seed in (0, 1)]
    table = curves(folders)
    lines = [json.loads(line) for folder in folders for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert table[["metric", "value", "step", "epoch"]].values.tolist() == [
        [line["name"], line["value"], line["step"], line["epoch"]] for line in lines
    ]
    assert list(table["arm"].unique()) == ["conv2d", "additive"]


def test_band_is_mean_and_sd_over_seeds(tmp_path: Path) -> None:
    table = curves([write_run(tmp_path, "fft", seed) for seed in range(4)])
    found = bands(table).set_index(["metric", "epoch"])
    values = table[(table.metric == "validation/loss") & (table.epoch == 2)]["value"]
    assert len(values) == 4
    row = found.loc[("validation/loss", 2)]
    assert (row["mean"], row["sd"], row["n"]) == pytest.approx((np.mean(values), np.std(values, ddof=1), 4))


def test_a_run_that_stopped_early_is_not_padded(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, "fft", seed, epochs=epochs) for seed, epochs in enumerate((2, 4, 4))]
    found = bands(curves(folders)).query("metric == 'validation/loss'")
    assert dict(zip(found["epoch"], found["n"], strict=True)) == {0: 3, 1: 3, 2: 3, 3: 2, 4: 2}
    later = curves(folders[1:]).query("metric == 'validation/loss' and epoch == 3")["value"]
    assert found.query("epoch == 3")["mean"].item() == pytest.approx(later.mean())


def test_a_diverged_run_is_not_left_out_of_the_mean(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, "fft", seed, epochs=1) for seed in (0, 1)]
    line = {"name": "validation/loss", "value": float("inf"), "step": 100, "epoch": 2}
    for folder, value in zip(folders, (float("inf"), 0.5), strict=True):
        write_metrics(folder, [line | {"value": value}])
    row = bands(curves(folders)).query("epoch == 2").iloc[0]
    assert row["n"] == 2
    assert pd.isna(row["mean"])


def test_points_without_epoch_are_kept_and_enter_no_band(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "fft", 0)
    write_metrics(folder, [{"name": "train/gradient_norm", "value": 1.5, "step": 7, "epoch": None}])
    table = curves([folder])
    assert table["step"].tolist() == [7]
    assert table["epoch"].isna().all()
    assert bands(table).empty


@pytest.mark.parametrize(
    "break_it, message",
    [
        (lambda run: (run / "config.yaml").unlink(), r"config\.yaml: no such file"),
        (lambda run: (run / "config.yaml").write_text("study: fusion\n"), r"config\.yaml: key 'arm' is missing"),
        (lambda run: (run / "config.yaml").write_text("[1, 2]\n"), r"config\.yaml: expected a mapping"),
        (lambda run: (run / "metrics.jsonl").unlink(), r"metrics\.jsonl: no such file"),
        (lambda run: (run / "metrics.jsonl").write_text('{"name": "x"}\n'), r"metrics\.jsonl:1: not a metric point"),
        (lambda run: write_metrics(run, [HALF]), r"metrics\.jsonl:1: not a metric point"),
    ],
)
def test_what_is_no_finished_run_is_named(tmp_path: Path, break_it: Callable[[Path], None], message: str) -> None:
    folder = write_run(tmp_path, "fft", 0)
    break_it(folder)
    with pytest.raises(InputError, match=message) as error:
        curves([folder])
    assert "\n" not in str(error.value)


def test_two_values_at_one_epoch_are_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "fft", 0)
    line = {"name": "train/loss", "value": 1.0, "step": 1, "epoch": 1}
    write_metrics(folder, [line, line | {"step": 2}])
    with pytest.raises(InputError, match="two values of train/loss at epoch 1"):
        bands(curves([folder]))


def test_averages_are_of_the_last_updates_and_evaluations(tmp_path: Path) -> None:
    table = points(tmp_path, sd=0.0)
    found = averages(table, last=0.3)
    for arm, level in LEVELS.items():
        rows = found[found["arm"] == f"additive-{arm}"].set_index(["metric", "seed"])
        assert rows.loc[("step/a_1", 0), "value"] == pytest.approx(level)
        assert rows.loc[("step/a_1", 0), "points"] == round(0.3 * UPDATES)
        assert rows.loc[("validation/accuracy", 1), "value"] == pytest.approx(0.8 + 0.1 * level)
        assert rows.loc[("validation/accuracy", 1), "points"] == round(0.3 * UPDATES / EVERY)
    whole = averages(table, last=1.0).set_index(["arm", "metric", "seed"])
    assert whole.loc[("additive-none", "step/a_1", 0), "value"] == pytest.approx((0.9 + 0.7) / 2)
    accuracy = whole.loc[("additive-none", "validation/accuracy", 0), "value"]
    assert accuracy == pytest.approx(0.8 + 0.1 * (0.9 + 0.7) / 2), "the score before the first update does not count"


def test_a_metric_that_ends_before_its_run_has_no_value_at_the_end(tmp_path: Path) -> None:
    whole = points(tmp_path)
    kept = averages(whole, last=0.3).set_index(["arm", "metric", "seed"])["value"]
    lost = (whole["metric"] == "step/a_1") & (whole["arm"] == "additive-all") & (whole["seed"] == 1)
    for share in (0.6, 0.0):  # a cloud that collapses within training, and one that is collapsed from the start
        found = averages(whole[~lost | (whole["step"] <= share * UPDATES)], last=0.3)
        own = found[(found["metric"] == "step/a_1") & (found["arm"] == "additive-all")].set_index("seed")
        assert own["value"].isna().to_dict() == {seed: seed == 1 for seed in own.index}
        assert own.loc[0, "value"] == kept[("additive-all", "step/a_1", 0)]
        against = dict.fromkeys(found["arm"], "additive-none")
        table = compared(found, ["step/a_1"], against=against, confidence=0.95, power=0.8).set_index("arm")
        assert table["dropped"].to_dict() == {"additive-selected": 0, "additive-all": 1}
        assert table["p"].isna().to_dict() == {"additive-selected": False, "additive-all": True}


def test_a_study_that_is_not_run_has_no_averages() -> None:
    assert averages(curves([]), last=0.3).empty


def test_arms_are_compared_in_the_figures_that_were_taken(tmp_path: Path) -> None:
    found = averages(points(tmp_path), last=0.3)
    against = dict.fromkeys(found["arm"], "additive-none")
    figures = ["validation/a_1", "step/a_1", "step/absent"]
    table = compared(found, figures, against=against, confidence=0.95, power=0.8)
    assert table["metric"].tolist() == ["validation/a_1"] * 2 + ["step/a_1"] * 2
    assert table["arm"].tolist() == ["additive-selected", "additive-all"] * 2
    first = table.iloc[0]
    assert first["reference"] == "additive-none"
    assert first["low"] < LEVELS["selected"] - LEVELS["none"] < first["high"] < 0
