"""The first screen's sentences come from the tables: other numbers give other sentences."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from finished_runs import of_runs, tables_of, write_run
from isoscope.platform.figures import numbers
from isoscope.platform.report.overview import finding, overview, summary
from isoscope.platform.results.paired_comparison import ArmRow
from isoscope.platform.results.study_tables import Tables, read_tables, write_tables
from isoscope.platform.statistics.paired import Interval, Verdict
from report_material import Material, make


def row(tables: Tables, arm: str) -> ArmRow:
    return next(one for one in tables.comparison if one.arm == arm and one.metric == "accuracy")


@pytest.fixture(scope="module")
def tables(material: Material) -> Tables:
    return material.studies[0]


def test_the_best_arm_has_the_highest_mean(tables: Tables) -> None:
    found = overview(tables)
    means = {one.arm: one.mean for one in tables.comparison if one.metric == "accuracy" and one.kind != "baseline"}
    assert found["best"].startswith(f"Highest mean, Accuracy: {max(means, key=lambda arm: means[arm])}, ")
    assert found["question"] == "How do additive, conv2d_identity and fft differ on order?"
    assert summary(tables).items() >= {name: found[name] for name in ("question", "best", "limits")}.items()


def test_of_arms_with_one_mean_none_is_best(tables: Tables) -> None:
    def equal(*named: str) -> str:
        rows = [one._replace(mean=0.96875) if one.arm in named else one for one in tables.comparison]
        return str(overview(tables._replace(comparison=rows))["best"])

    assert equal("fft", "additive") == "Highest mean, Accuracy: additive and fft, 0.969 each."
    every = "additive, conv2d_identity and fft"
    assert equal("additive", "conv2d_identity", "fft") == f"Highest mean, Accuracy: {every}, 0.969 each."
    assert equal("fft").startswith("Highest mean, Accuracy: fft, 0.969 ±")


def test_a_reversed_effect_reverses_the_sentence(tmp_path: Path) -> None:
    for better, way in ((0.75, "lower"), (0.97, "higher")):
        made = make(tmp_path / way, arms={"additive": 0.86, "fft": better})
        (study,) = made.studies
        said = finding(row(study, "fft"), study)
        assert said["word"] == "holds"
        assert f"Accuracy, fft against additive: {way}, " in said["text"]
        judged = {"lower": "Worse", "higher": "Better"}[way]
        assert overview(study)["answer"] == f"Accuracy, compared with additive. {judged}: fft."
        best = "additive" if way == "lower" else "fft"
        assert overview(study)["best"].startswith(f"Highest mean, Accuracy: {best}, ")
        assert said in overview(study)["findings"]


@pytest.mark.parametrize("score", [0.01, 0.99])
def test_arms_that_are_not_better_than_a_baseline_are_named(tables: Tables, score: float) -> None:
    rows = [row._replace(mean=score) if row.kind == "baseline" else row for row in tables.comparison]
    arms = dict.fromkeys(row.arm for row in rows if row.kind != "baseline")
    limits = overview(tables._replace(comparison=rows))["limits"]
    said = [limit for limit in limits if limit.startswith("No better mean")]
    assert said == ([] if score < 0.5 else [f"No better mean than majority class (0.990): {', '.join(arms)}."])


def test_the_interval_is_that_of_the_verdict(tables: Tables) -> None:
    fft = row(tables, "fft")
    for whole, shown in ((Interval(-0.5, 0.5), Interval(-0.5, 0.5)), (None, fft.paired.interval)):
        changed = fft._replace(two_way=whole)
        rows = [changed if one is fft else one for one in tables.comparison]
        assert f" {numbers.interval(shown)} (" in finding(changed, tables._replace(comparison=rows))["text"]


def test_what_holds_stands_first(tables: Tables) -> None:
    words = [one["word"] for one in overview(tables)["findings"]]
    assert words == sorted(words, key=["holds", "does not", "under-powered"].index)
    assert words[0] == "holds"


def test_an_under_powered_difference_says_how_many_seeds_it_takes(tables: Tables) -> None:
    weak = [one for one in tables.comparison if one.metric == "accuracy" and one.verdict]
    count = sum(one.verdict is not None and one.verdict.word == "under-powered" for one in weak)
    (said, *_) = overview(tables)["limits"]
    assert count > 0
    start = f"Under-powered: {count} of {len(weak)}. Seeds in all, to find a difference: "
    row = next(one for one in weak if one.verdict and one.verdict.word == "under-powered")
    measured = abs(row.paired.mean)
    wanted = (
        rf"{row.arm}: about (\d+) for one as large as measured \({measured:.3f}\), about (\d+) for one of the margin "
    )
    found = re.match(re.escape(start) + wanted, said)
    assert found
    assert (int(found[1]) > int(found[2])) == (measured < tables.margin)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda one: one._replace(two_way=None), "no interval over test items"),
        (lambda one: one._replace(p_holm=1e-6), "seeds agree, but another test sample could reverse it"),
        (lambda one: one._replace(p_holm=None), "no test: the same difference at every seed, or no number at one"),
    ],
    ids=["no shares", "seeds agree", "no test"],
)
def test_what_more_seeds_cannot_decide_asks_for_none(
    tables: Tables, change: Callable[[ArmRow], ArmRow], said: str
) -> None:
    weak = next(one for one in tables.comparison if one.verdict and one.verdict.word == "under-powered")
    changed = change(weak._replace(verdict=Verdict("under-powered", said)))
    reference = next(one for one in tables.comparison if one.kind == "reference" and one.metric == weak.metric)
    (limit, *_) = overview(tables._replace(comparison=[reference, changed]))["limits"]
    assert limit == f"Under-powered: 1 of 1. {weak.arm}: {said}."


def test_without_a_number_at_a_seed_no_arm_is_best(tables: Tables) -> None:
    rows = [one._replace(mean=float("nan")) if one.arm == "fft" else one for one in tables.comparison]
    assert overview(tables._replace(comparison=rows))["best"] == ""


def test_a_failed_seed_is_named_beside_the_verdict_with_the_median(tmp_path: Path) -> None:
    """One of five seeds of an arm ends at chance: its spread is that of one seed."""
    right = {seed: np.random.default_rng(seed).random(400) for seed in range(5)}
    ends = {"additive": [0.8] * 5, "fft": [0.81, 0.82, 0.815, 0.3, 0.812]}
    folders = [
        write_run(tmp_path, arm, seed, right=right[seed] < accuracy, items=400)
        for arm, accuracies in ends.items()
        for seed, accuracy in enumerate(accuracies)
    ]
    made = tables_of("fusion", of_runs(folders), margin=0.02)
    write_tables(tmp_path / "tables", made)
    found = row(read_tables(tmp_path / "tables"), "fft")
    said = finding(found, made)["text"]
    assert " Seed 3 lies apart from the others (−0.5" in said
    assert f"Median: {numbers.signed(found.robust.median)}, range {numbers.interval(found.robust.range)}." in said
    assert found.robust.median > 0
    sound = found._replace(robust=found.robust._replace(apart=None))
    assert "lies apart" not in finding(sound, made._replace(comparison=[sound]))["text"]
