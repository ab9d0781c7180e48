"""A search from its first trial to an overlay of the best, on real runs, with a real MLflow database and DVC.

The tests of this file are one story, told in order.
"""

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base import paths
from isoscope.base.atomic_files import seal
from isoscope.base.errors import InputError
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.mirror.browsing import experiment
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.stages.search_runs import identified, plan
from isoscope.platform.stages.stored_search import kept
from pipeline_project import Finished, Project, wait_for
from struck import truncate

ROOT = Path(__file__).parents[2]
SEARCH = """\
search:
  name: tiny
  study: fusion
  arm: additive
  settings: []
  seeds: [0]
  space:
    fusion: {choices: [additive, conv2d]}
    model.fusion.kernel_size: {choices: [[1, 3], [3, 3]], when: {fusion: [conv2d]}}
    training.learning_rate: {low: 0.01, high: 0.1, log: true}
  objectives: {validation/accuracy: maximise}
  constraints: {validation/loss: {better: minimise, margin: 1.0}}
  at: best
  budget: {trials: 3, hours: null}
  retries: 0
  sampler: {kind: random, seed: 5}
  pruner: {kind: none}
"""


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The finished project, with a search that the first test begins."""
    project = finished.project.copy(tmp_path_factory.mktemp("search") / "project")
    text = re.sub(r"^search:.*\n", SEARCH, project.text("params.yaml"), flags=re.M)
    (project.folder / "params.yaml").write_text(text, "utf-8")
    stage = re.search(r"^  search:\n(?:(?:   .*)?\n)*", (ROOT / "dvc.yaml").read_text("utf-8"), re.M)
    assert stage
    project.edit("dvc.yaml", "  report:\n", f"{stage[0]}  report:\n")
    project.edit("dvc.yaml", "reports/parts, ", "reports/parts, reports/search, ")
    project.commit("A search")
    return project


def trials(project: Project) -> list[optuna.trial.FrozenTrial]:
    storage = optuna.storages.RDBStorage(f"sqlite:///{project.folder / '.isoscope/search/studies.db'}")
    try:
        return optuna.load_study(study_name="tiny", storage=storage).trials
    finally:
        storage.engine.dispose()


def study(project: Project) -> dict:
    return json.loads(project.text("reports/search/study.json"))


def by_hand(params: dict) -> list[str]:
    """The words that set the choices of a trial."""
    settings = [f"{name}={value}" for name, value in params.items() if "." in name]
    return [word for one in settings for word in ("-S", one)]


def test_dvc_runs_it_once(project: Project) -> None:
    done = project.isoscope("repro", "search", "report")
    assert done.ran == ["search", "report"]
    assert "running the default arm first" in done.err
    assert [trial.state.name for trial in trials(project)] == ["COMPLETE"] * 3
    assert study(project)["counts"] == {"COMPLETE": 3}
    assert "search-" in project.text("reports/index.html")
    assert project.isoscope("repro", "search", "report").ran == []


def test_a_trial_is_the_run_that_its_choices_give_by_hand(project: Project) -> None:
    for trial in trials(project)[::2]:
        (digest,) = trial.user_attrs["provenance"]["digests"]
        done = project.isoscope(
            "train", "fusion", trial.params["fusion"], "--seed", "0", *by_hand(trial.params), "--json"
        )
        assert "found finished, nothing trained" in done.err
        assert json.loads(done.out)["folder"].endswith(f".isoscope/runs/{digest}/output")
        lines = (Path(json.loads(done.out)["folder"]) / "metrics.jsonl").read_text().splitlines()
        figures = [json.loads(line) for line in lines]
        best = next(one["value"] for one in figures if one["name"] == "training/best_epoch")
        said = json.loads(done.out)
        assert said["epoch"] == best
        assert said["metrics"] == {one["name"]: one["value"] for one in figures if one["name"].startswith("test/")}
        value = next(one["value"] for one in figures if (one["name"], one["epoch"]) == ("validation/accuracy", best))
        assert trial.value == value


def test_mlflow_shows_a_run_per_trial_below_the_study(project: Project) -> None:
    tracked = project.tracked()
    (parent,) = [run for run in tracked.values() if run.name == "search tiny"]
    below = [run for run in tracked.values() if run.tags.get("isoscope.stage") == "trial"]
    assert parent.status == "FINISHED"
    assert sorted(run.name for run in below) == ["trial 0", "trial 1", "trial 2"]
    assert {run.status for run in below} == {"FINISHED"}
    assert len({run.tags["mlflow.parentRunId"] for run in below}) == 1
    assert {run.tags["optuna.state"] for run in below} == {"COMPLETE"}
    records = project.records()
    for digest in {digest for run in below for digest in run.tags["isoscope.runs"].split()}:
        assert tracked[digest].status == "FINISHED"
        assert (begun := records[digest].run) is not None
        assert experiment(records[digest], begun) == "search-tiny"


def test_the_best_is_an_overlay_that_gives_the_same_run(project: Project) -> None:
    number = study(project)["best"]
    project.isoscope("search", "adopt", "fusion/found")
    assert read_yaml(project.folder, Path("variants/fusion/found.yaml")) == read_yaml(
        project.folder, Path("reports/search/best.yaml")
    )
    before = project.text("params.yaml")
    project.edit("params.yaml", "      - conv2d\n", "      - conv2d\n      - found\n")
    done = project.isoscope("train", "fusion", "found", "--seed", "0", "-S", "training.epochs=4")
    assert f"({trials(project)[number].user_attrs['provenance']['digests'][0][:12]}): found finished" in done.err
    (project.folder / "params.yaml").write_text(before)
    assert "Trial " + str(number) + " of the search 'tiny'" in project.text("variants/fusion/found.yaml")
    for name, said in (
        ("fusion/additive", "variants/fusion/additive.yaml: exists with other content"),
        ("fuson/found", "no axis 'fuson' in variants; did you mean 'fusion'?"),
    ):
        assert said in project.refused("search", "adopt", name)
    assert not (project.folder / "variants/fuson").exists()


def test_it_is_confirmed_with_fresh_seeds(project: Project) -> None:
    done = project.isoscope("search", "confirm", "--seeds", "3", "--workers", "2", "--json")
    found = json.loads(done.out)
    assert found["seeds"] == [1, 2, 3]
    assert [(row["metric"], row["judged"]) for row in found["rows"]] == [
        ("validation/accuracy", "test/accuracy"), ("validation/loss", "test/loss"),
    ]  # fmt: skip
    assert all(row["n"] == 3 and row["low"] <= row["difference"] <= row["high"] for row in found["rows"])
    assert {row["by"] for row in found["rows"]} == {"seeds and sentences"}
    kept = json.loads(project.text("reports/search-confirmed.json"))
    assert kept["trial"] == found["trial"]
    assert kept["digest"] == study(project)["digest"]
    said = project.refused("search", "confirm", "-S", "search.at=last")
    assert "search.at: last: confirm reads the test split, which is scored at the best epoch alone" in said


def test_what_another_search_confirms_has_a_file_of_its_own(project: Project) -> None:
    """The report would show it as the confirmation of the search in params.yaml."""
    before = project.text("reports/search-confirmed.json")
    other = ("-S", "training.epochs=1", "-S", "search.budget.trials=1", "-S", "search.name=short")
    project.isoscope("search", "run", *other)
    project.isoscope("search", "confirm", "--trial", "0", "--seeds", "2", *other)
    assert project.text("reports/search-confirmed.json") == before
    kept = json.loads(project.text(".isoscope/search/reports/short-confirmed.json"))
    assert (kept["search"], kept["trial"], kept["seeds"]) == ("short", 0, [1, 2])


def test_the_code_of_the_default_arm_belongs_to_the_search(project: Project) -> None:
    """Also where no trial has its choices: constraints compare with it."""
    configuration = Configuration(project.folder, ["search.space.fusion={choices: [conv2d]}"])
    here = paths.Project(project.folder, project.folder)
    section = configuration.root.search
    default, conv2d = (plan(configuration, section, here)(one)[0].work.run.code for one in ({}, {"fusion": "conv2d"}))
    assert default != conv2d
    assert set(identified(configuration, section, here)["code"].split()) == {default, conv2d}


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
def test_a_search_that_is_killed_ends_as_an_undisturbed_one(
    project: Project, death: signal.Signals, tmp_path: Path
) -> None:
    """The driver alone is killed, while trials train; the same command goes on at once."""
    there = project.copy(tmp_path / "there", without=(".isoscope", "models", "mlflow.db", "reports"), mirrored=False)
    for _ in range(2):
        before = there.points()
        process = there.start("search", "run", "--workers", "2")
        wait_for(lambda: there.points() > before + 3 or process.poll() is not None)  # noqa: B023
        process.send_signal(death)
        process.communicate()
    there.isoscope("search", "run", "--workers", "2")
    ours, theirs = ([(trial.number, trial.params, trial.values) for trial in trials(one)] for one in (there, project))
    assert ours == theirs
    assert {record.status for record in there.records().values() if record.run} == {"FINISHED"}


def test_a_larger_budget_goes_on_where_only_the_results_are(project: Project, tmp_path: Path) -> None:
    """As in a fresh clone after `dvc pull`."""
    clone = project.copy(tmp_path / "clone")
    shutil.rmtree(clone.folder / ".isoscope" / "search")
    clone.edit("params.yaml", "trials: 3", "trials: 5")
    assert "search" in clone.isoscope("repro", "search").ran
    known, now = trials(project), trials(clone)
    assert [trial.params for trial in now[:3]] == [trial.params for trial in known]
    assert [trial.values for trial in now[:3]] == [trial.values for trial in known]
    assert [trial.datetime_start for trial in now[:3]] == [trial.datetime_start for trial in known]
    assert len(now) == 5
    assert list(pd.read_parquet(clone.folder / "reports/search/trials.parquet")["number"]) == list(range(5))


def test_altered_results_rebuild_nothing(project: Project, tmp_path: Path) -> None:
    """The storage is gone: only what dvc.lock names is believed."""
    there = project.copy(tmp_path / "there")
    altered(there, A_VALUE)
    healed = there.isoscope("search", "run")
    assert "has changed since it was written" in healed.err
    assert "the folder is written again" in healed.err
    table = pd.read_parquet(there.folder / "reports/search/trials.parquet")
    assert table["trial"].equals(pd.read_parquet(project.folder / "reports/search/trials.parquet")["trial"])
    shutil.rmtree(there.folder / ".isoscope" / "search")
    altered(there, A_VALUE, sealed=True)
    before, lock = project.text("reports/search/best.yaml"), there.text("dvc.lock")
    said = there.refused("search", "run")
    assert "the study is not in the storage, and dvc.lock does not name these files" in said
    assert (there.text("reports/search/best.yaml"), there.text("dvc.lock")) == (before, lock)


Trials, Facts = list[Any], dict[str, Any]
Damage = Callable[[Trials, Facts], object]


def constraint(trials: Trials, _: Facts) -> None:
    (name,) = [name for name in trials[0]["system_attrs"] if name.startswith("constraints")]
    trials[0]["system_attrs"][name] = -9.0


def values_of_another(trials: Trials, _: Facts) -> None:
    trials[0]["values"], trials[2]["values"] = [trials[2]["values"][0] + 0.01], trials[0]["values"]


A_VALUE: Damage = lambda trials, _: trials[1].update(values=[0.99])  # noqa: E731
NO_FORM = "not a results folder"
OTHERS = "trial {}: its choices .*{} do not give the runs that it names"
KINDS: dict[str, tuple[Damage, str]] = {
    "a value": (A_VALUE, "trial 1: validation/accuracy is 0.99, but its runs logged"),
    "values of another": (values_of_another, "trial 0: validation/accuracy is"),
    "choices": (
        lambda trials, _: trials[0]["params"].update({"training.learning_rate": 0.05}),
        OTHERS.format(0, "0.05.*"),
    ),
    "a constraint": (constraint, "trial 0: constraint validation/loss is -9.0, but its runs logged"),
    "the default": (
        lambda _, facts: facts.update(default=dict.fromkeys(facts["default"], 0.5)),
        "the default arm has .*, but its runs logged",
    ),
    "other runs": (
        lambda trials, _: [one["user_attrs"]["provenance"].update(digests=["0" * 64]) for one in trials],
        OTHERS.format(0, ""),
    ),
    "no runs": (lambda trials, _: trials[2]["user_attrs"].pop("provenance"), OTHERS.format(2, "")),
    "a doubled row": (lambda trials, _: trials.append(trials[1]), "expected trials 0 to 3, each once, got "),
    "a lost row": (lambda trials, _: trials.pop(0), "expected trials 0 to 1, each once, got "),
    "a text as value": (lambda trials, _: trials[0].update(values=["best"]), NO_FORM),
    "a list as trial": (lambda trials, _: trials.__setitem__(0, [1]), NO_FORM),
    "a list as choices": (lambda trials, _: trials[0].update(params=["fusion"]), NO_FORM),
    "a lost fact": (lambda _, facts: facts.pop("default"), NO_FORM),
    "a default of text": (lambda _, facts: facts.update(default="none"), NO_FORM),
}


def altered(project: Project, damage: Damage, *, sealed: bool = False) -> None:
    """Alter the stored trials, or the facts of the study; `sealed`: and make the folder say that nothing was."""
    folder = project.folder / "reports/search"
    file = folder / "trials.parquet"
    facts = json.loads((folder / "study.json").read_text("utf-8"))
    trials = [json.loads(text) for text in pq.read_table(file)["trial"].to_pylist()]
    damage(trials, facts)
    for path in (file, folder / "study.json"):
        path.unlink()  # a link to DVC's cache
    pq.write_table(pa.table({"trial": [json.dumps(one) for one in trials]}), file)
    (folder / "study.json").write_text(json.dumps(facts), "utf-8")
    if sealed:
        seal(folder)


def verify(project: Project) -> None:
    """Read and verify the stored trials; dvc.lock names whatever stands in their folder, as after `dvc commit`."""
    folder = project.folder / "reports/search"
    known = project.lock()["search"]["outs"][0]["md5"]
    (project.folder / "dvc.lock").write_text(project.text("dvc.lock").replace(known, dvc_md5(folder)), "utf-8")
    configuration, here = Configuration(project.folder), paths.Project(project.folder, project.folder)
    section = configuration.root.search
    kept(folder, section, here, plan(configuration, section, here)).verify()


@pytest.fixture(scope="module")
def copied(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return project.copy(tmp_path_factory.mktemp("struck") / "there", without=("models", "mlflow.db"))


@pytest.fixture
def there(copied: Project, project: Project) -> Project:
    """A copy of the project with the results that were found."""
    results = copied.folder / "reports/search"
    shutil.rmtree(results)
    shutil.copytree(project.folder / "reports/search", results, symlinks=True)
    return copied


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_is_compared_with_its_runs(there: Project, kind: str) -> None:
    damage, said = KINDS[kind]
    altered(there, damage, sealed=True)
    with pytest.raises(InputError, match=said) as refused:
        verify(there)
    assert "\n" not in str(refused.value)
    assert "delete it: the search starts again" in str(refused.value)


@pytest.mark.parametrize("file", ["trials.parquet", "study.json", "reported.parquet", "best.yaml"])
def test_a_cut_file_is_named(there: Project, file: str) -> None:
    truncate(there.folder / "reports/search" / file)
    with pytest.raises(InputError, match="not a results folder of isoscope search"):
        verify(there)


def test_sound_results_are_believed_with_and_without_their_runs(there: Project) -> None:
    verify(there)
    shutil.rmtree(there.folder / ".isoscope")
    verify(there)


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("trials: 3", "trials: 0", "params.yaml: search.budget.trials: expected greater than or equal to 1, got 0"),
        ("high: 0.1,", "high: 0.2,", "search 'tiny' in sqlite"),
        ("training.learning_rate: {", "training.learning_rats: {", "training.learning_rats: unknown key; did you mean"),
        (
            "fusion: {choices: [additive, conv2d]}",
            "fusion: {choices: [conv2d, fft3]}",
            "variants/fusion/fft3.yaml: no such",
        ),
        ("validation/accuracy: maximise", "test/accuracy: maximise", "'test/accuracy' is a metric of the test split"),
    ],
)
def test_bad_input_is_refused_in_one_line(project: Project, old: str, new: str, said: str, tmp_path: Path) -> None:
    there = project.copy(tmp_path / "project")
    there.edit("params.yaml", old, new)
    line = there.refused("search", "run")
    assert said in line
    assert there.refused("search", "status") == line, "they judge alike"
    assert len(trials(there)) == 3


def test_another_storage_and_none_are_named(project: Project) -> None:
    server = "postgresql{}://nobody@127.0.0.1:1/none"
    for words, said in (
        (("run", "--storage", server.format("")), f"storage {server.format('+psycopg')}: cannot be opened"),
        (("status", "-S", "search.name=other"), "no such study"),
        (("status", "--storage", "sqlite:///none.db"), "no such study"),
        (("run", "--storage", "sqlite:///README.md"), "not a SQLite database"),
        (("run", "-S", "search=null"), "params.yaml: search: null"),
    ):
        assert said in project.refused("search", *words)
    assert not list(project.folder.glob("none.db*")) + list(project.folder.glob("README.md.*"))
    assert json.loads(project.isoscope("search", "status", "--json").out)["done"]
