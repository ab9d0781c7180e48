"""Which way a metric is better: declared by its objective, and never guessed from its name."""

import json
from pathlib import Path

import pytest

from finished_runs import of_runs, write_metrics, write_run
from isoscope.base.errors import InputError
from isoscope.platform.config.tree import dump_yaml, read_yaml
from isoscope.platform.report.overview import overview, summary
from isoscope.platform.statistics.paired import Verdict
from isoscope.studies.tables import Tables, read_tables, tables, write_tables

VALUES = {"additive": 50.0, "fft": 30.0, "conv2d": 70.0}


def reader(folder: Path, values: dict[str, float], declared: str | None) -> None:
    """Make a finished run that of a plugin's objective, with these metrics of the test split."""
    config = read_yaml(folder, Path("config.yaml"))
    config["params"]["objective"] = {"kind": "reader"}
    config["labels"] = []
    (folder / "config.yaml").write_text(dump_yaml(config), "utf-8")
    write_metrics(folder, [{"name": f"test/{n}", "value": v, "step": 9, "epoch": 1} for n, v in values.items()])
    if declared is not None:
        (folder / "objective.json").write_text(declared, "utf-8")


def study(root: Path, metric: str, declared: str | None, seeds: int = 3) -> Tables:
    """Arms of which fft has the lowest and conv2d the highest values, with a loss that says the reverse."""
    folders = []
    for arm, value in VALUES.items():
        for seed in range(seeds):
            folders.append(write_run(root, arm, seed))
            found = value + 0.1 * seed * (1 + (arm == "fft"))
            reader(folders[-1], {"loss": -found, metric: found}, declared)
    made = tables("fusion", of_runs(folders, items=10), {}, confidence=0.95, power=0.8, margin=0.01)
    # A plugin has no score by test item, so the rule leaves these differences undecided: here they are decided.
    held = [row._replace(verdict=Verdict("holds", "here")) if row.verdict else row for row in made.comparison]
    write_tables(root / "tables", made._replace(comparison=held))
    return read_tables(root / "tables")  # as the report gets them


@pytest.mark.parametrize("metric", ["perplexity", "accuracy", "wer", "f1"])
@pytest.mark.parametrize("way, best, other", [("minimise", "fft", "conv2d"), ("maximise", "conv2d", "fft")])
def test_the_declared_direction_decides_the_answer_and_the_best_arm(
    tmp_path: Path, metric: str, way: str, best: str, other: str
) -> None:
    made = study(tmp_path, metric, json.dumps({"metrics": {metric: way, "loss": "minimise"}}))
    found = overview(made)
    assert found["answer"].endswith(f"compared with additive. Better: {best}. Worse: {other}.")
    assert found["best"].startswith(f"{'Lowest' if way == 'minimise' else 'Highest'} mean, ")
    assert f": {best}, " in found["best"]
    assert summary(made)["answer"] == found["answer"]


def test_the_metric_that_is_declared_first_stands_first(tmp_path: Path) -> None:
    made = study(tmp_path, "perplexity", json.dumps({"metrics": {"perplexity": "minimise", "loss": "minimise"}}))
    assert list(dict.fromkeys(row.metric for row in made.comparison)) == ["perplexity", "loss"]


def test_without_a_declared_direction_nothing_is_called_better(tmp_path: Path) -> None:
    made = study(tmp_path, "perplexity", json.dumps({"metrics": {}}))
    rows = [row for row in made.comparison if row.metric == "perplexity"]
    found = overview(made._replace(comparison=rows))
    assert found["answer"].endswith("compared with additive. Higher: conv2d. Lower: fft.")
    assert overview(study(tmp_path / "earlier", "perplexity", None))["answer"].endswith("Higher: fft. Lower: conv2d.")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"metrics": {"perplexity": "down"}}', '{"metrics": 3}', '{"metrics": {"a": []}}']
)
def test_a_damaged_declaration_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"objective\.json: not the metrics of an objective .*; train this run again$"):
        study(tmp_path, "perplexity", text)
