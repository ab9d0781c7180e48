"""Which way a metric is better: declared by its objective, and never guessed from its name."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from finished_runs import of_runs, tables_of, write_metrics, write_run
from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.base.metric import Metric, checked
from isoscope.platform.config.declared import metrics_of, title
from isoscope.platform.config.searching import check_directions
from isoscope.platform.config.tree import dump_yaml, read_yaml
from isoscope.platform.mirror.browsing import VIEW_TAG
from isoscope.platform.mirror.browsing import columns as columns_of
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import Mirror
from isoscope.platform.outputs import recorded_metrics
from isoscope.platform.report.overview import overview, summary
from isoscope.platform.results.study_tables import Tables, read_tables, write_tables
from isoscope.platform.runs.record import read
from isoscope.platform.statistics.paired import Verdict
from isoscope.studies.arms.views import TRAINING
from isoscope.studies.curves import SEEDS
from tracked_runs import start

VALUES = {"additive": 50.0, "fft": 30.0, "conv2d": 70.0}


def declared(*metrics: tuple[str, str]) -> str:
    """Return the text of a run's objective.json: its metrics in order."""
    return json.dumps({"metrics": [Metric(name, better=way).recorded for name, way in metrics]})


def reader(folder: Path, values: dict[str, float], declared: str) -> None:
    """Make a finished run that of a plugin's objective, with these metrics of the test split."""
    config = read_yaml(folder, Path("config.yaml"))
    config["params"]["objective"] = {"kind": "reader"}
    config["labels"] = []
    (folder / "config.yaml").write_text(dump_yaml(config), "utf-8")
    write_metrics(folder, [{"name": f"test/{n}", "value": v, "step": 9, "epoch": 1} for n, v in values.items()])
    (folder / "objective.json").write_text(declared, "utf-8")


def study(root: Path, metric: str, declared: str, seeds: int = 3) -> Tables:
    """Arms of which fft has the lowest and conv2d the highest values, with a loss that says the reverse."""
    folders = []
    for arm, value in VALUES.items():
        for seed in range(seeds):
            folders.append(write_run(root, arm, seed))
            found = value + 0.1 * seed * (1 + (arm == "fft"))
            reader(folders[-1], {"loss": -found, metric: found}, declared)
    made = tables_of("fusion", of_runs(folders, items=10))
    # A plugin has no score by test item, so the rule leaves these differences undecided: here they are decided.
    held = [row._replace(verdict=Verdict("holds", "here")) if row.verdict else row for row in made.comparison]
    write_tables(root / "tables", made._replace(comparison=held))
    return read_tables(root / "tables")  # as the report gets them


@pytest.mark.parametrize("metric", ["perplexity", "accuracy", "wer", "f1"])
@pytest.mark.parametrize("way, best, other", [("minimise", "fft", "conv2d"), ("maximise", "conv2d", "fft")])
def test_the_declared_direction_decides_the_answer_and_the_best_arm(
    tmp_path: Path, metric: str, way: str, best: str, other: str
) -> None:
    made = study(tmp_path, metric, declared((metric, way), ("loss", "minimise")))
    found = overview(made)
    assert found["answer"].endswith(f"compared with additive. Better: {best}. Worse: {other}.")
    assert found["best"].startswith(f"{'Lowest' if way == 'minimise' else 'Highest'} mean, ")
    assert f": {best}, " in found["best"]
    assert summary(made)["answer"] == found["answer"]


PLUGIN = """
from isoscope.objectives import Task
from isoscope.plugins import Metric, objective


class Reader:
    metrics = (
        Metric("perplexity", "Perplexity", "per word", better="minimise", low=1.0),
        Metric("loss", "Loss", "bits", better="minimise"),
    )


@objective("reader")
def reader(task: Task) -> Reader:
    return Reader()
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[str]:
    """Load a plugin's objective whose first metric is a perplexity; return what a run of it records."""
    (tmp_path / "reader.py").write_text(PLUGIN, "utf-8")
    plugins.load(tmp_path / "reader.py")
    yield json.dumps({"metrics": [one.recorded for one in plugins.OBJECTIVES["reader"].metrics]})
    del plugins.OBJECTIVES.own["reader"]


def test_a_perplexity_that_a_plugin_declares_is_ranked_rightly_everywhere(tmp_path: Path, plugin: str) -> None:
    made = study(tmp_path, "perplexity", plugin)
    assert list(dict.fromkeys(row.metric for row in made.comparison)) == ["perplexity", "loss"], "table of arms"
    assert {row.better for row in made.comparison} == {"minimise"}
    first = overview(made)
    assert first["answer"] == "Perplexity (per word), compared with additive. Better: fft. Worse: conv2d."
    assert first["best"].startswith("Lowest mean, Perplexity (per word): fft, ")

    columns = {"arm": "fft", "epoch": [1, 2], "mean": 1.2, "sd": 0.5, "n": 3}
    bands = pd.concat(pd.DataFrame(columns).assign(metric=f"validation/{name}") for name in ("loss", "perplexity"))
    form: Any = TRAINING.form
    found = form.drawn(bands, pd.DataFrame(columns=SEEDS), made.by_name["metrics"])
    assert [*found["quantity"].unique()] == ["Perplexity (per word)", "Loss (bits)"]
    assert found.groupby("quantity", sort=False)["low"].min().to_list() == [1.0, 0.7]

    wrong, right = {"validation/perplexity": "maximise"}, {"validation/perplexity": SimpleNamespace(better="minimise")}
    for known in (metrics_of("reader"), recorded_metrics(tmp_path / "fusion/fft/seed-0")):
        for constraints in ({}, right):  # a constraint of the same metric does not hide the objective's direction
            searched: Any = SimpleNamespace(objectives=wrong, constraints=constraints)
            with pytest.raises(InputError, match=r"validation/perplexity is maximised, .* declares 'minimise'"):
                check_directions(searched, known)
    assert title("validation/perplexity") == "Perplexity (per word), validation"

    with start(tmp_path) as record:
        for name in ("test/perplexity", "test/loss", "validation/perplexity"):
            record.metric(name, 1.2, step=5, epoch=1)
    server = connect(None, tmp_path)
    assert Mirror(server).send(read(record.path)).error is None
    view = server.client.get_experiment(server.experiment("fusion")).tags[VIEW_TAG]
    assert columns_of(view) == ["metrics.`test/perplexity`", "metrics.`test/loss`"]


def test_without_a_declared_direction_nothing_is_called_better(tmp_path: Path) -> None:
    made = study(tmp_path, "perplexity", declared())
    rows = [row for row in made.comparison if row.metric == "perplexity"]
    found = overview(made._replace(comparison=rows))
    assert found["answer"].endswith("compared with additive. Higher: conv2d. Lower: fft.")


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", '{"metrics": 3}', '{"metrics": {"perplexity": "minimise"}}', '{"metrics": [{"low": 0.0}]}'),
        *('{"metrics": [{"name": "a", "better": "down"}]}', '{"metrics": [{"name": "a", "high": "1"}]}'),
    ],
)
def test_a_damaged_declaration_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"objective\.json: not the metrics of an objective .*; train this run again$"):
        study(tmp_path, "perplexity", text)


@pytest.mark.parametrize("given", [{"loss": "minimise"}, (), "loss", ("loss",), [Metric("loss", better="down")]])  # type: ignore[arg-type]
def test_what_a_plugin_declares_is_checked(given: Any) -> None:
    with pytest.raises(InputError, match=r"^plugin 'reader': metrics: expected a sequence such as \(Metric\("):
        checked(given, "plugin 'reader'")
