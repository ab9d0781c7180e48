"""Comparison with published values: each verdict by an example."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.paths import PARAMS
from isoscope.platform.config.training import Watch
from isoscope.platform.config.tree import flatten, read_yaml
from isoscope.platform.results.published import ALONE, FAIL, INDISTINCT, PASS, UNDERPOWERED, reproduced
from isoscope.platform.statistics.paired import minimum_detectable_effect
from isoscope.studies.isotropy.reproduction import (
    PUBLISHED,
    ROUNDING,
    Known,
    asked_settings,
    known_values,
    reproduction,
)

ROOT = Path(__file__).parents[3]

HALF = Known(0.5, 0.05, 0.2)


def averages(values: list[float], arm: str = "additive-selected", metric: str = "a_1") -> pd.DataFrame:
    rows = [(arm, seed, f"step/{metric}", value, 10) for seed, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["arm", "seed", "metric", "value", "points"])


def table(values: list[float], known: Known | str) -> pd.DataFrame:
    arms = {"additive-selected": known if isinstance(known, str) else {"a_1": known}}
    return reproduction(averages(values), arms, confidence=0.95, power=0.8)


def cells(values: list[float], known: Known | str) -> list[Any]:
    return [*table(values, known).itertuples()]


@pytest.mark.parametrize(
    "values, known, expected",
    [
        ([0.51, 0.515, 0.52], HALF, PASS),
        ([0.60, 0.61, 0.62], HALF, FAIL),
        ([0.46, 0.50, 0.54], HALF, UNDERPOWERED),  # the mean agrees, but the interval is wide
        ([0.53, 0.54, 0.55], HALF, UNDERPOWERED),  # the mean is within the tolerance, not all of the interval
        ([0.484, 0.50, 0.516], HALF, UNDERPOWERED),  # with the error of a mean of five runs it may be outside
        ([0.51, 0.52], HALF, UNDERPOWERED),  # two seeds have no interval
        ([0.51, 0.52, 0.53], "another backbone", ALONE),
        # Arms that were published too near each other show nothing. .017 and .017 are one metric, and so may .017 and
        # .018 be; .485 and .541 are two unless runs differ as much.
        ([0.017, 0.0171, 0.0169], Known(0.017, 0.0, 0.0), INDISTINCT),
        ([0.5, 0.6], Known(0.017, 0.0005, 0.001), INDISTINCT),  # nor can ours that is far off
        ([0.485, 0.486, 0.487], Known(0.485, 0.028, 0.056), PASS),
        ([0.45, 0.48, 0.51], Known(0.485, 0.028, 0.056), INDISTINCT),
    ],
)
def test_verdicts(values: list[float], known: Known | str, expected: str) -> None:
    (cell,) = cells(values, known)
    difference = np.nan if isinstance(known, str) else np.mean(values) - known.value
    assert (cell.mean, cell.difference) == pytest.approx((np.mean(values), difference), nan_ok=True)
    assert cell.verdict == expected


def test_a_published_mean_of_five_is_compared_as_often_wrongly_as_the_level_says() -> None:
    """Both sides drawn from one distribution, without tolerance: 5 % of comparisons fail."""
    draws = np.random.default_rng(0)
    failed = 0
    for _ in range(600):
        ours, theirs = draws.normal(0.5, 0.02, 5), float(draws.normal(0.5, 0.02, 5).mean())
        (cell,) = cells(ours.tolist(), Known(theirs, 0.0, 1.0))
        failed += cell.verdict == FAIL
    assert 0.02 < failed / 600 < 0.08
    alone = sum(abs(np.mean(ours := draws.normal(0.5, 0.02, 5)) - draws.normal(0.5, 0.02, 5).mean())
                > 2.776 * np.std(ours, ddof=1) / 5**0.5 for _ in range(600))  # fmt: skip
    assert alone / 600 > 0.1, "as an exact metric it would fail too often"


def test_the_interval_is_students_and_the_effect_that_of_so_many_seeds() -> None:
    (cell,) = cells([0.4, 0.5, 0.6], "another backbone")
    assert cell.sd == pytest.approx(0.1)
    assert cell.high is not None
    assert cell.high - cell.mean == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-6)
    assert cell.detectable == pytest.approx(0.1 * 3.26, abs=0.001)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_detectable_difference_is_found_as_often_as_promised(n: int) -> None:
    """A true difference of that size from a published mean of five runs that was rounded."""
    draws, sd, tolerance, failed = np.random.default_rng(n), 0.02, 0.02, 0
    effect = (
        tolerance
        + ROUNDING
        + sd * minimum_detectable_effect(n, tests=1, confidence=0.95, power=0.8) * (1 + n / PUBLISHED["runs"]) ** 0.5
    )
    shown = []
    for _ in range(400):
        theirs = round(float(draws.normal(0.5, sd, PUBLISHED["runs"]).mean()), 3)
        (cell,) = cells(draws.normal(0.5 + effect, sd, n).tolist(), Known(theirs, tolerance, 1.0))
        failed += cell.verdict == FAIL
        shown.append(cell.detectable)
    assert 0.72 < failed / 400 < 0.9
    assert np.median(shown) == pytest.approx(effect, rel=0.2)


def run(checkpoint: str | None = "bert-base-uncased", task: str = "mrpc", arm: str = "none", **other: Any) -> Any:
    """Write a run with the published settings except for `other`: dotted name with `__` → value."""
    tree: dict[str, Any] = {}
    known = task in PUBLISHED["tasks"] and arm in PUBLISHED["arms"]
    other_penalty = {"penalty.kind": "persistent_entropy", "penalty.selection": arm}
    settings = asked_settings(task, arm) if known else PUBLISHED["settings"] | other_penalty
    settings |= {"model.max_length": 512}
    if checkpoint is not None:
        settings["model.encoder.checkpoint"] = checkpoint
    for name, value in (settings | {name.replace("__", "."): value for name, value in other.items()}).items():
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = value
    return {"task": task, "axes": {"fusion": "additive", "penalty": "any name"}, "params": tree}


OPTIONS = {"last": 0.3, "tolerance": 0.05}
GLUE = {"kind": "hub", "name": "mrpc", "config": None, "splits": {"train": "train"}}


def known(other: Any, source: Any = GLUE, **options: float) -> Any:
    """Return the published values for a run, by default on GLUE's MRPC (or CoLA)."""
    if source is GLUE and other["task"] == "cola":
        source = GLUE | {"name": "glue", "config": "cola"}
    return known_values(other, source, **{**OPTIONS, **options})


@pytest.mark.parametrize("checkpoint", ["google-bert/bert-base-uncased", "bert-base-uncased"])
def test_the_published_table_is_found_by_backbone_task_and_penalty(checkpoint: str) -> None:
    none, every = (known(run(checkpoint, arm=arm)) for arm in ("none", "all"))
    assert not isinstance(none, str)
    assert not isinstance(every, str)
    assert none["a_1"] == Known(0.679, 0.05, pytest.approx(0.138))
    assert every["a_3_centred"].value == 0.017
    roberta = known(run("roberta-base", "cola", "selected"))
    assert not isinstance(roberta, str)
    assert roberta["a_1_centred"].value == 0.512


def test_what_could_be_another_arms_figure_agrees_with_neither() -> None:
    found = known(run())
    assert not isinstance(found, str)
    assert found["a_3"] == Known(0.023, pytest.approx((0.028 - 0.023) / 2), pytest.approx(0.005))
    assert found["a_3_centred"] == Known(0.017, 0.0, 0.0), "two arms have the same"


@pytest.mark.parametrize(
    "other, reason",
    [
        (run(None), "no published value"),
        (run("some/other"), "no published value"),
        (run(task="sst2"), "no published value"),
        (run(arm="random-k"), "no published value"),
        (run(model__fusion__kind="conv2d"), "published with other settings: model.fusion.kind additive (here conv2d)"),
        (run(model__max_length=64), "whole texts (here truncated at model.max_length 64)"),
        (run(training__watch__layer=3), "published with other settings: training.watch.layer -1 (here 3)"),
        (run(training__watch__vectors="mean"), "training.watch.vectors first (here mean)"),
        (run(training__clip_norm=1.0), "training.clip_norm null (here 1.0)"),
        (run(training__schedule__epochs=25), "training.schedule.epochs null (here 25)"),
        (run(training__weight_decay=0.01), "training.weight_decay 8e-06 (here 0.01)"),
        (
            run(arm="selected", penalty__weight=1000.0),
            "published with other settings: penalty.weight 1.0 (here 1000.0)",
        ),
        (
            run(arm="selected", penalty__points__layer=2),
            "published with other settings: penalty.points.layer -1 (here 2)",
        ),
        (run(arm="all", penalty__clouds="batch"), "published with other settings: penalty.clouds class (here batch)"),
        (run(training__fraction=0.1, training__learning_rate=1e-3), "fraction 1.0 (here 0.1); training.learning_rate"),
    ],
)
def test_what_is_no_repetition_stands_alone_and_says_why(other: Any, reason: str) -> None:
    found = known(other)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize("name", sorted(PUBLISHED["settings"].keys() - {"reproduction.last"}))
def test_every_setting_counts(name: str) -> None:
    found = known(run(**{name.replace(".", "__"): "another"}))
    assert isinstance(found, str)
    assert f"{name} " in found


@pytest.mark.parametrize(
    "name, section",
    [("budget", {"kind": "updates", "number": 9}), ("freeze", {"after": 1, "until": None, "groups": ["enc.0.W1"]})],
)
def test_a_section_that_is_set_counts_where_none_is_published(name: str, section: dict[str, Any]) -> None:
    found = known(run(**{f"training__{name}": section}))
    assert found == f"published with other settings: training.{name} null (here set)"


def test_an_average_over_another_share_of_training_is_another_figure() -> None:
    assert known(run(), last=0.5) == "published with other settings: reproduction.last 0.3 (here 0.5)"
    assert not isinstance(known(run(training__schedule__epochs=10)), str), "said in another way"


FREE = {
    *("learning_rate", "weight_decay"),  # by task, above
    *("accumulation", "select", "keep", "watch.sample", "watch.clusters"),
    *("determinism", "device", "threads", "log_every", "checkpoint_every", "keep_state", "evaluations"),
    *("snapshots.steps", "snapshots.epochs", "fusion_lr", "allocation", "slices", "frozen_head"),
}
"""Fields of `training` that a repetition may choose: none of them changes the shares of the batches."""


def test_every_field_of_training_is_either_published_or_free() -> None:
    asked = {name.removeprefix("training.") for name in PUBLISHED["settings"] if name.startswith("training.")}
    watched = {f"watch.{name}" for name in Watch.model_fields}
    fields = (flatten(read_yaml(ROOT, PARAMS)["training"]).keys() - {"watch"}) | watched
    assert asked | FREE == fields
    assert not asked & FREE


@pytest.mark.parametrize(
    "source, reason",
    [
        (None, "no data in data/processed/mrpc; run: isoscope prepare mrpc"),
        ({"kind": "local", "path": "texts/mrpc.csv", "splits": {"train": "train"}}, "of GLUE (here texts/mrpc.csv)"),
        (
            GLUE | {"name": "glue", "config": "rte"},
            "published with other settings: the data set mrpc of GLUE (here glue)",
        ),
        (
            GLUE | {"splits": {"train": "validation"}},
            "published with other settings: the data set mrpc of GLUE (here mrpc)",
        ),
    ],
)
def test_another_data_set_under_the_tasks_name_is_no_repetition(source: Any, reason: str) -> None:
    found = known(run(), source)
    assert isinstance(found, str)
    assert reason in found
    assert not isinstance(known(run(), GLUE | {"name": "nyu-mll/glue", "config": "mrpc"}), str)


def test_what_was_found_is_shown() -> None:
    text = reproduced(table([0.51, 0.515, 0.52], HALF).to_dict("records"), PUBLISHED).text
    assert "additive-selected  a_1" in text
    assert text.splitlines()[-1] == "1 pass"
    note = PUBLISHED["notes"]["published"]
    assert note in text
    alone = reproduced(table([0.51, 0.515, 0.52], "no published value").to_dict("records"), PUBLISHED).text
    assert note not in alone
    assert "–" in alone
    assert "no runs" in reproduced([], PUBLISHED).text
