"""McNemar's test against its closed form; the paired interval; points and predictions that differ, and nothing else."""

import json
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from finished_runs import labels_of, write_metrics, write_run
from isoscope.platform.results.run_differences import compared, mcnemar, points, predictions, unequal_files
from isoscope.studies.diff.views import _metrics, _traces


@pytest.mark.parametrize("b, c", [(0, 0), (1, 0), (3, 3), (8, 2), (2, 8), (0, 12), (40, 61)])
def test_mcnemar_is_the_exact_binomial_test(b: int, c: int) -> None:
    tail = sum(comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)
    assert mcnemar(b, c) == pytest.approx(min(1.0, 2 * tail))


def right(items: int, *wrong: int) -> np.ndarray:
    found = np.ones(items, bool)
    found[[*wrong]] = False
    return found


def test_flips_are_the_rows_with_another_prediction(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", "additive", 0, items=40, right=right(40, 1, 2, 3, 30))
    b = write_run(tmp_path / "b", "additive", 0, items=40, right=right(40, 3, 5))
    found = predictions(a, b, None)
    assert found["flips"]["row"].tolist() == [1, 2, 5, 30]
    (counts,) = found["mcnemar"].to_dict("records")
    assert counts == {"rows": 40, "flipped": 4, "right_a": 1, "right_b": 3, "p": mcnemar(1, 3)}
    assert found["flips"]["true"].tolist() == labels_of(40, 2)[[1, 2, 5, 30]].astype(str).tolist()
    same = predictions(a, a, None)
    assert same["flips"].empty
    assert same["mcnemar"]["p"].tolist() == [1.0]


def test_sets_of_labels_and_translations_can_flip_and_scores_cannot(tmp_path: Path) -> None:
    sides = [tmp_path / name for name in "ab"]
    for side, second in zip(sides, (1, 0), strict=True):
        side.mkdir()
        columns = {
            "row": [0, 1],
            "label_0": [1, 0],
            "label_1": [0, 1],
            "predicted_0": [1, 0],
            "predicted_1": [False, bool(second)],
        }
        pd.DataFrame(columns).to_parquet(side / "predictions.parquet")
    found = predictions(*sides, None)
    assert found["flips"][["true", "a", "b"]].to_dict("records") == [{"true": "0 1", "a": "0 1", "b": "0 0"}]
    assert found["mcnemar"][["right_a", "right_b"]].to_numpy().tolist() == [[1, 0]]
    for side, text in zip(sides, ("one", "two"), strict=True):
        pd.DataFrame({"row": [0], "score": [0.5], "predicted": [len(text) / 7]}).to_parquet(
            side / "predictions.parquet"
        )
    assert predictions(*sides, None) == {}
    for side, text in zip(sides, ("one", "two"), strict=True):
        pd.DataFrame({"row": [0], "translation": [text], "bleu_share": [1.0]}).to_parquet(side / "translations.parquet")
    found = predictions(*sides, None)
    assert found["flips"].to_dict("records") == [{"row": 0, "a": "one", "b": "two"}]
    assert found["mcnemar"].columns.tolist() == ["rows", "flipped"]


def test_the_paired_interval_is_the_t_interval_over_pairs() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"name": "test/f1", "step": 8, "a": random.random(5), "b": random.random(5), "both": True})
    table["pair"] = [f"seed-{seed}" for seed in range(5)]
    (found,) = compared(pd.concat([table, table.assign(name="train/f1")]), 0.9).to_dict("records")
    test = stats.ttest_rel(table["b"], table["a"])
    low, high = test.confidence_interval(0.9)
    assert [found[name] for name in ("low", "high", "p")] == pytest.approx([low, high, test.pvalue])
    assert (found["metric"], found["n"]) == ("test/f1", 5)


def of_ends(pair: str, a: tuple[int, float], b: tuple[int, float], folder: Path) -> pd.DataFrame:
    """The points of two runs that end at these updates with these accuracies."""
    for side, (step, value) in (("a", a), ("b", b)):
        (folder / pair / side).mkdir(parents=True)
        rows = [("validation/loss", 0, 0.7), ("validation/loss", step, 0.4), ("test/accuracy", step, value)]
        write_metrics(folder / pair / side, [{"name": name, "value": one, "step": at} for name, at, one in rows])
    return points(folder / pair / "a", folder / pair / "b").assign(pair=f"additive/{pair}")


def test_runs_that_end_at_other_updates_are_pairs_too(tmp_path: Path) -> None:
    """Scores of the end are once in a run: seeds that stop early would else fall out without a word."""
    ends = [((100, 0.8), (100, 0.9)), ((100, 0.8), (80, 0.7)), ((60, 0.8), (100, 0.6)), ((90, 0.8), (70, 0.91))]
    tables = [of_ends(f"seed-{seed}", *pair, tmp_path) for seed, pair in enumerate(ends)]
    (found,) = compared(pd.concat(tables), 0.95).to_dict("records")
    assert (found["n"], found["difference"]) == (4, pytest.approx(np.mean([0.1, -0.1, -0.2, 0.11])))
    (shown,) = _metrics(tables[1])
    assert shown["name"].tolist() == ["test/accuracy", "validation/loss"]
    assert shown.iloc[0][["a", "b"]].tolist() == [0.8, 0.7]


def test_where_pairs_first_differ_the_values_are_their_means_too(tmp_path: Path) -> None:
    """Equal at update 0 in the first pair only; both pairs have both updates."""
    made = [((0.7, 0.7), (0.4, 0.3)), ((0.6, 0.8), (0.5, 0.1))]
    rows = [
        (f"seed-{seed}", "validation/loss", step, a, b)
        for seed, pairs in enumerate(made)
        for step, (a, b) in zip((0, 100), pairs, strict=True)
    ]
    (found,) = _metrics(pd.DataFrame(rows, columns=["pair", "name", "step", "a", "b"]).assign(both=True))
    (row,) = found.to_dict("records")
    assert (row["first_step"], row["first_a"], row["first_b"]) == (0, pytest.approx(0.65), pytest.approx(0.75))
    assert (row["step"], row["a"], row["b"]) == (100, pytest.approx(0.45), pytest.approx(0.2))


def test_a_pair_without_a_number_leaves_no_difference_of_the_others(tmp_path: Path) -> None:
    ends = [((100, 0.8), (100, value)) for value in (0.9, 0.91, 0.92, np.nan)]
    tables = [of_ends(f"seed-{seed}", *pair, tmp_path) for seed, pair in enumerate(ends)]
    (found,) = compared(pd.concat(tables), 0.95).to_dict("records")
    assert found["n"] == 4
    assert np.isnan([found["difference"], found["b"]]).all()
    assert pd.isna(found["low"])
    alone = pd.concat(tables).assign(b=None, both=False)
    assert compared(alone, 0.95).empty
    assert compared(alone[alone["name"] != "test/accuracy"], 0.95).empty


def test_a_metric_that_one_run_logs_as_nan_is_compared(tmp_path: Path) -> None:
    """A run that ended in NaN is the difference that a user looks for."""
    table = of_ends("seed-0", (100, 0.8), (100, np.nan), tmp_path)
    (shown,) = _metrics(table)
    row = shown.set_index("name").loc["test/accuracy"]
    assert row[["a", "b", "first_a", "first_b"]].tolist() == [0.8, "NaN", 0.8, "NaN"]
    (equal,) = _metrics(table.assign(a=np.nan, b=np.nan))
    assert equal["first_step"].isna().all()
    (found,) = compared(table, 0.95).to_dict("records")
    assert (found["a"], found["n"]) == (0.8, 1)
    assert np.isnan(found["b"])


def test_a_trace_that_turns_to_nan_differs_there(tmp_path: Path) -> None:
    for side, last in (("a", 0.5), ("b", np.nan)):
        (tmp_path / side).mkdir()
        steps = [[(0.7).hex(), (1.0).hex()], [float(last).hex(), (1.0).hex()]]
        trace = {"validation": {}, "steps": steps, "weights": None}
        (tmp_path / side / "trace.json").write_text(json.dumps(trace), "utf-8")
        write_metrics(tmp_path / side, [])
    (found,) = _traces(points(tmp_path / "a", tmp_path / "b").assign(pair="one"))
    assert found[["step", "name", "a", "b"]].to_numpy().tolist() == [[2, "trace/loss", 0.5, "NaN"]]


def test_a_point_and_a_file_that_differ_are_named_alone(tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / side, "additive", 0) for side in "ab")
    assert unequal_files(a, b) == ([], [], 3)
    same = points(a, b)
    assert same["a"].equals(same["b"])
    text = (b / "metrics.jsonl").read_text("utf-8")
    line = next(line for line in text.splitlines() if '"step": 100' in line and "validation/loss" in line)
    (b / "metrics.jsonl").write_text(text.replace(line, line.replace('"value": 0', '"value": 9')), "utf-8")
    other = points(a, b)
    assert other.loc[other["a"] != other["b"], ["name", "step"]].to_numpy().tolist() == [["validation/loss", 100]]
    assert unequal_files(a, b) == (["metrics.jsonl"], [], 3)
    (a / "trace.json").write_text("{}", "utf-8")
    assert unequal_files(a, b) == (["metrics.jsonl"], ["trace.json"], 3)
