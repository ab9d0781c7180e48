"""The comparison of arms, from folders on disk, against planted differences."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score

from finished_runs import labels_of, write_metrics, write_run
from isoscope.base.errors import InputError
from isoscope.platform.config.declared import metrics_of
from isoscope.platform.outputs import Output, Trained, read_output, read_predictions
from isoscope.platform.results.paired_comparison import ArmRow, Result, compare_arms
from isoscope.studies.arms.scores_on_test import results
from isoscope.studies.constant_prediction import above_of_text

BASELINES = {
    "majority class": {"accuracy": 0.5, "f1": 0.6667, "matthews": 0.0, "n": 300},
    "TF-IDF, words": {"accuracy": 0.62, "f1": 0.61, "matthews": 0.24, "n": 300},
}


def run_compare(folders: list[Path], margin: float = 0.02) -> list[ArmRow]:
    return compare_arms(results(map(read_output, folders)), BASELINES, confidence=0.95, power=0.8, margin=margin)


def only(rows: list[ArmRow], arm: str, metric: str = "accuracy") -> ArmRow:
    (row,) = [row for row in rows if (row.arm, row.metric) == (arm, metric)]
    return row


def study(root: Path, arms: dict[str, float], seeds: int = 3, items: int = 300) -> list[Path]:
    """Arms of a given accuracy, over the same hard and easy items."""
    ease = np.random.default_rng(0).random(items)
    folders = []
    for arm, accuracy in arms.items():
        for seed in range(seeds):
            noise = np.random.default_rng([seed, *arm.encode()]).normal(scale=0.1, size=items)
            right = ease + noise > 1 - accuracy
            folders.append(write_run(root, arm, seed, right=right, items=items))
    return folders


def accuracies(folders: list[Path]) -> np.ndarray:
    tables = [read_predictions(read_output(folder)) for folder in folders]
    return np.array([accuracy_score(table["label"], table["predicted"]) for table in tables])


def test_arms_are_compared_with_the_first_by_scipys_paired_t_and_holm_over_a_metric(tmp_path: Path) -> None:
    arms = {"additive": 0.8, "fft": 0.74, "conv2d": 0.78, "gated": 0.76}
    folders = study(tmp_path, arms, seeds=4)
    rows, values = run_compare(folders), dict(zip(arms, accuracies(folders).reshape(4, 4), strict=True))
    assert [row.arm for row in rows if row.kind == "reference"] == ["additive"] * 5
    assert only(rows, "additive").difference is None
    p = {}
    for arm in ("fft", "conv2d", "gated"):
        row, test = only(rows, arm), stats.ttest_rel(values[arm], values["additive"])
        expected = values[arm].mean(), values[arm].std(ddof=1), (values[arm] - values["additive"]).mean()
        assert (row.mean, row.sd, row.difference) == pytest.approx(expected)
        assert row.paired is not None
        assert (*row.paired.interval, row.paired.p) == pytest.approx((*test.confidence_interval(0.95), test.pvalue))  # type: ignore[misc]
        p[row.paired.p] = row.p_holm
    assert p[min(p)] == pytest.approx(min(1.0, 3 * min(p)))
    assert {row.tests for row in rows if row.paired} == {3}
    base = only(rows, "TF-IDF, words", "matthews")
    assert base[4:9] == ("baseline", (), 0.24, None, 300)
    assert base.verdict is None
    assert base.difference == pytest.approx(0.24 - only(rows, "additive", "matthews").mean)
    turned = run_compare(folders[4:8] + folders[:4])
    assert only(turned, "additive").difference == pytest.approx(-only(rows, "fft").difference)  # type: ignore[operator]


def test_a_planted_difference_holds_and_none_is_claimed_between_equals(tmp_path: Path) -> None:
    folders = study(tmp_path, {"additive": 0.85, "worse": 0.6, "same": 0.85}, seeds=5)
    rows = run_compare(folders)
    assert only(rows, "worse").verdict == ("holds", "over seeds and test items")
    assert only(rows, "same").verdict is not None
    assert only(rows, "same").verdict.word != "holds"  # type: ignore[union-attr]


def test_an_arm_equal_to_the_last_item_does_not_differ(tmp_path: Path) -> None:
    right = [np.random.default_rng(seed).random(200) < 0.8 for seed in range(3)]
    folders = [write_run(tmp_path, arm, seed, right=right[seed], items=200) for arm in "ab" for seed in range(3)]
    row = only(run_compare(folders), "b")
    assert row.paired == (3, 0.0, 0.0, (0.0, 0.0), 1.0)
    assert (row.two_way, row.detectable) == ((0.0, 0.0), None)
    assert row.verdict == ("does not", "both intervals lie within ± 0.02")


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c", "d")])
@pytest.mark.parametrize("other", [0, 1], ids=["the same class", "another class"])
def test_arms_that_predict_one_class_have_no_verdict(tmp_path: Path, classes: tuple[str, ...], other: int) -> None:
    """They differ by exactly 0, or by the difference of two classes' sizes; neither says anything about the arms."""
    label = labels_of(302, len(classes))
    shown = {"additive": 1, "fft": other}
    folders = [
        write_run(tmp_path, arm, seed, right=label == one, predicted=np.full(302, one), items=302, labels=classes)
        for arm, one in shown.items()
        for seed in range(3)
    ]
    for metric in ("accuracy", "f1", "matthews"):
        found = only(run_compare(folders), "fft", metric).verdict
        assert found == ("no verdict", "neither is more than 0.02 above chance"), metric


def test_an_arm_that_learned_is_compared_with_an_arm_that_did_not(tmp_path: Path) -> None:
    label = labels_of(300, 2)
    ease = [np.random.default_rng(seed).random(300) < 0.9 for seed in range(5)]
    folders = [write_run(tmp_path, "constant", seed, right=label == 0, items=300) for seed in range(5)]
    folders += [write_run(tmp_path, "learned", seed, right=ease[seed], items=300) for seed in range(5)]
    assert only(run_compare(folders), "learned").verdict == ("holds", "over seeds and test items")


@pytest.mark.parametrize(
    "metric, near, far",
    [("loss", 6.995, 5.0), ("bleu", 0.4, 12.0)],
    ids=["a language model at unigrams", "a translation model that does not translate"],
)
@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_models_of_text_that_learned_nothing_have_no_verdict(metric: str, near: float, far: float, kind: str) -> None:
    manifest = {"columns": ["source", "target"], "baselines": {"unigram": {"test": {"target": {"loss": 7.0}}}}}

    def verdict(value: float) -> str:
        runs = {
            arm: {
                seed: compared_text(arm, seed, kind, {metric: value + 0.0001 * seed * (arm == "b")}, manifest)
                for seed in range(3)
            }
            for arm in "ab"
        }
        found = only(compare_arms(runs, {}, confidence=0.95, power=0.8, margin=0.01), "b", metric).verdict
        assert found is not None
        return found.word

    assert verdict(near) == "no verdict"
    assert verdict(far) != "no verdict"


def compared_text(arm: str, seed: int, kind: str, scores: dict[str, float], manifest: dict[str, Any]) -> Result:
    trained, params = Trained("s", arm, seed, "t", "d", "c", {}, {}), {"objective": {"kind": kind}}
    output = Output(Path(), trained, (), kind, params, metrics_of("translation", generated=True))
    return Result(output, scores, {}, np.arange(3), above_of_text(output, scores, manifest))


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_give_no_interval(tmp_path: Path, seeds: int) -> None:
    row = only(run_compare(study(tmp_path, {"additive": 0.9, "fft": 0.5}, seeds=seeds)), "fft")
    assert row.paired is not None
    assert (row.paired.interval, row.two_way, row.paired.p, row.p_holm) == (None, None, None, None)
    assert row.verdict is not None
    assert row.verdict.word == "under-powered"
    assert (row.sd is None) == (seeds == 1)


def test_unequal_seeds_are_paired_where_both_have_them(tmp_path: Path) -> None:
    folders = study(tmp_path, {"additive": 0.8, "fft": 0.7}, seeds=4)
    rows = run_compare([folders[0], *folders[2:4], *folders[5:]])
    fft, additive = only(rows, "fft"), only(rows, "additive")
    assert (additive.seeds, fft.seeds, fft.paired_seeds) == ((0, 2, 3), (1, 2, 3), (2, 3))
    assert fft.paired is not None
    assert (fft.paired.n, fft.paired.interval) == (2, None)
    values = accuracies(folders)
    assert fft.difference == pytest.approx(np.mean([values[6] - values[2], values[7] - values[3]]))


def test_without_a_common_seed_nothing_is_paired(tmp_path: Path) -> None:
    folders = study(tmp_path, {"additive": 0.8, "fft": 0.7}, seeds=2)
    row = only(run_compare([folders[0], folders[3]]), "fft")
    assert (row.difference, row.paired_seeds) == (None, ())
    assert row.verdict == ("under-powered", "0 paired seeds: no interval below 3")


def other_score(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    write_metrics(folder, [line | {"value": 0.123} if line["name"] == "test/f1" else line for line in lines])


def no_score(folder: Path) -> None:
    write_metrics(folder, [{"name": "train/loss", "value": 1.0, "step": 1, "epoch": 1}])


@pytest.mark.parametrize(
    "break_it, message",
    [(other_score, r"test/f1 is 0\.123000 in metrics\.jsonl"), (no_score, r"holds no test/accuracy")],
)
def test_scores_that_predictions_do_not_bear_out_are_refused(
    tmp_path: Path, break_it: Callable[[Path], None], message: str
) -> None:
    folders = study(tmp_path, {"additive": 0.8, "fft": 0.7})
    break_it(folders[4])
    with pytest.raises(InputError, match=message):
        run_compare(folders)


def test_another_test_split_is_refused(tmp_path: Path) -> None:
    assert not np.array_equal(labels_of(100, 2), labels_of(102, 2)[:100])
    folders = [write_run(tmp_path, "additive", 0, items=100), write_run(tmp_path, "fft", 0, items=102)]
    with pytest.raises(InputError, match="tested on other rows"):
        run_compare(folders)


def test_an_arm_that_predicts_the_largest_class_differs_from_that_baseline_by_nothing() -> None:
    arms = {"a": of_objective("a", "classification", accuracy=46 / 90)}
    rows = compare_arms(arms, {"majority": {"accuracy": 0.511111, "n": 90}}, confidence=0.95, power=0.8, margin=0.01)
    assert [row.difference for row in rows if row.kind == "baseline"] == [0.0]


def test_nothing_to_compare() -> None:
    assert run_compare([]) == []


def of_objective(
    arm: str, objective: str, options: Mapping[str, Any] = MappingProxyType({}), **scores: float
) -> dict[int, Result]:
    trained = Trained("s", arm, 0, "t", "d", "c", {}, {})
    params = {"objective": {"kind": objective, **options}}
    return {seed: Result(Output(Path(), trained, (), objective, params), scores, {}, np.arange(3)) for seed in range(3)}


@pytest.mark.parametrize("kind, kinds", [("classification", ["reference", "arm"]), ("masked", ["reference"] * 2)])
def test_options_part_arms_only_if_they_change_what_is_predicted(kind: str, kinds: list[str]) -> None:
    """A weighted loss predicts the same classes; another share of masked tokens is another question."""
    options = {"classification": {"class_weights": "balanced"}, "masked": {"mask_probability": 0.4}}[kind]
    arms = {"one": of_objective("one", kind, accuracy=0.5), "two": of_objective("two", kind, options, accuracy=0.75)}
    rows = compare_arms(arms, {}, confidence=0.95, power=0.8, margin=0.01)
    assert [row.kind for row in rows] == kinds
    assert rows[1].difference == (0.25 if kinds[1] == "arm" else None)


def test_a_metric_that_the_first_arm_lacks_at_a_seed_has_no_other_reference() -> None:
    arms = {one: of_objective(one, "classification", accuracy=0.5, loss=1.0) for one in ("base", "x", "y")}
    arms["base"][1] = arms["base"][1]._replace(scores={"accuracy": 0.5})
    rows = compare_arms(arms, {}, confidence=0.95, power=0.8, margin=0.01)
    assert [(row.metric, row.arm, row.kind) for row in rows] == [
        ("accuracy", "base", "reference"),
        ("accuracy", "x", "arm"),
        ("accuracy", "y", "arm"),
    ]
    beside = arms | {"base": of_objective("base", "classification", accuracy=0.5, loss=1.0)}
    beside["x"] = dict(arms["x"])
    beside["x"][1] = arms["base"][1]
    rows = compare_arms(beside, {}, confidence=0.95, power=0.8, margin=0.01)
    assert [row.arm for row in rows if row.metric == "loss"] == ["base", "y"], (
        "the control: of another arm, that arm alone"
    )


def test_only_arms_of_one_objective_are_compared() -> None:
    """Losses of objectives that predict different things have no difference; a metric may be one objective's alone."""
    arms = {
        "mt": of_objective("mt", "translation", loss=2.0, bleu=10.0),
        "clm": of_objective("clm", "causal", loss=3.0),
        "mt-fft": of_objective("mt-fft", "translation", loss=2.5, bleu=8.0),
        "clm-fft": of_objective("clm-fft", "causal", loss=3.5),
    }
    rows = compare_arms(arms, {}, confidence=0.95, power=0.8, margin=0.01)
    found = [(row.metric, row.arm, row.kind, row.difference) for row in rows]
    assert found == [
        ("loss", "mt", "reference", None),
        ("loss", "mt-fft", "arm", 0.5),
        ("loss", "clm", "reference", None),
        ("loss", "clm-fft", "arm", 0.5),
        ("bleu", "mt", "reference", None),
        ("bleu", "mt-fft", "arm", -2.0),
    ]
