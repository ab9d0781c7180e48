"""A kind of study in a folder of its own: stage, page, notebook and `reproduce` know it, and nothing else changes."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from finished_runs import write_run
from isoscope import notebook, plugins
from isoscope.base import kind as kinds
from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.cli import app
from isoscope.platform.config.across_studies import check_all, check_comparison
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import dump_yaml, read_yaml
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.stages.analyse import analyse
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.report import report

ROOT = Path(__file__).parents[2]
FILES = {
    "__init__.py": 'QUESTION = "Which arm took the longer way?"\n',
    "tables.py": """\
import pandas as pd

from isoscope.studies.curves import curves


def tables(studies, *, confidence, **_):
    (study,) = studies.values()
    points = curves([run.output.folder for runs in study.arms.values() for run in runs.values()])
    losses = points[points["metric"] == "validation/loss"]
    ways = losses.groupby(["arm", "seed"], sort=False)["value"].agg(lambda one: one.diff().abs().sum()).reset_index()
    verdict = {"published": 1.0, "verdict": "fail", "reason": "another way"}
    return {"ways": ways, "losses": losses[["arm", "seed", "epoch", "value"]], "known": ways.assign(**verdict)}


def points(tables):
    return {"way/longest": float(tables["ways"]["value"].max())}
""",
    "views.py": """\
from matplotlib.figure import Figure

from isoscope.plugins import View, under


def _bars(ways):
    figure = Figure()
    figure.subplots().bar(ways["arm"] + ways["seed"].astype(str), ways["value"])
    return figure


def _lines(losses):
    figure = Figure()
    figure.subplots().plot(losses["epoch"], losses["value"])
    return figure


VIEWS = (
    View("ways", ("ways",), _bars, "Length of the way of each run. Sum of steps of the validation loss."),
    *under("How did they go?", View("steps", ("losses",), _lines, "The steps of {}.", by="arm")),
)
""",
    "claims.py": """\
from isoscope.platform.statistics.findings import Untested


def claims(tables, *, confidence, margin):
    yield Untested.of_seeds("Length of the way", tables["ways"])
""",
    "published.yaml": """\
papers: {Someone 2026: {title: On ways., address: 'https://example.org/ways'}}
source: Someone 2026, Table 1
table: known
columns: {arm: "{arm}", published: "{published:.1f}", ours: "{value:.3f}"}
nothing: no ways
""",
}


GAPS = {
    "comparison.py": """\
from isoscope.platform.config.base import Name
from isoscope.platform.config.comparing import Comparison


class Gaps(Comparison):
    one: Name
    scale: float

    @property
    def compared(self):
        return (self.one,)


COMPARISON = Gaps
""",
    "tables.py": """\
import pandas as pd


def tables(studies, *, one, scale, **_):
    return {"gaps": pd.DataFrame({"arm": [*studies[one].arms], "gap": scale})}
""",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with two finished arms, whose study is of the kind in its folder `plugins/ways`."""
    monkeypatch.setenv(FOLLOWED, "1")
    monkeypatch.setattr(kinds, "KINDS", {})
    shutil.copytree(ROOT / "variants", tmp_path / "variants")
    shutil.copyfile(ROOT / "dvc.yaml", tmp_path / "dvc.yaml")
    folder = tmp_path / "plugins/ways"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    tree = read_yaml(ROOT, paths.PARAMS)
    study = {
        "kind": "ways",
        "task": "sentiment",
        "settings": [],
        "axes": {"fusion": ["additive", "fft"]},
        "seeds": [0, 1],
    }
    tree |= {"plugins": ["plugins/ways"], "tasks": ["sentiment"], "studies": {"trips": study}}
    tree |= {"comparisons": {}, "search": None}
    (tmp_path / "params.yaml").write_text(dump_yaml(tree), "utf-8")
    return Project(tmp_path, tmp_path)


def finished(project: Project, configuration: Configuration) -> dict[str, list[str]]:
    """Write the runs of the study; return its arms."""
    data = prepare(configuration.data("sentiment"), task="sentiment", project=project)
    rows = json.loads((data / "manifest.json").read_text("utf-8"))["splits"]["test"]["rows"]
    for arm in configuration.arms("trips"):
        for seed in configuration.study("trips").seeds:
            output = write_run(project.folder / "models", arm, seed, study="trips", task="sentiment", items=rows)
            config = read_yaml(output, Path("config.yaml"))
            config["inputs"] = {paths.processed("sentiment").as_posix(): dvc_md5(data)}
            (output / "config.yaml").write_text(dump_yaml(config), "utf-8")
    return {"trips": [*configuration.arms("trips")]}


def compared(project: Project, **options: object) -> Configuration:
    """Add a comparison of the kind in `plugins/gaps`."""
    folder = project.folder / "plugins/gaps"
    folder.mkdir(exist_ok=True)
    for name, text in GAPS.items():
        (folder / name).write_text(text, "utf-8")
    tree = read_yaml(project.folder, paths.PARAMS)
    tree |= {"plugins": ["plugins"], "comparisons": {"apart": {"kind": "gaps", "one": "trips"} | options}}
    (project.folder / "params.yaml").write_text(dump_yaml(tree), "utf-8")
    return Configuration(project.folder, ["variants/task/sentiment.yaml:data.source.size=300"])


def test_a_kind_of_comparison_is_a_folder_too(project: Project) -> None:
    configuration = compared(project, scale=2.0)
    check_comparison(configuration, "apart")
    root, asked = configuration.root, configuration.comparison("apart")
    arms = finished(project, configuration)
    folder = analyse(root.analysis, root.reproduction, asked, root.studies, name="apart", arms=arms, project=project)
    assert pd.read_parquet(folder / "tables/gaps.parquet")["gap"].tolist() == [2.0, 2.0]
    assert "gaps/comparison.py" in (folder / "config.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    "options, said",
    [
        ({"scale": "wide"}, r"params.yaml: comparisons.apart.scale: expected a valid number, got 'wide'"),
        ({"scale": 1.0, "scael": 1}, r"comparisons.apart.scael: unknown key; did you mean 'scale'"),
        ({"scale": 1.0, "one": "tripz"}, r"comparisons.apart: no study 'tripz'; did you mean 'trips'"),
        ({"scale": 1.0, "kind": "gasp"}, r"comparisons.apart: kind 'gasp' is unknown; did you mean 'gaps'"),
    ],
)
def test_its_options_are_checked_as_those_of_built_in_kinds(
    project: Project, options: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        check_all(compared(project, **options))


def test_what_declares_no_options_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GAPS, "comparison.py", "COMPARISON = 3\n")
    with pytest.raises(InputError, match=r"kind 'gaps': COMPARISON is 3; expected a class of isoscope"):
        compared(project, scale=1.0)


def test_stage_page_notebook_and_reproduce_know_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "variants/task/sentiment.yaml:data.source.size=300"
    configuration = Configuration(project.folder, [small])
    root, study = configuration.root, configuration.study("trips")
    arms = finished(project, configuration)
    folder = analyse(root.analysis, root.reproduction, study, root.studies, name="trips", arms=arms, project=project)

    assert set(pd.read_parquet(folder / "tables/ways.parquet")["arm"]) == {"additive", "fft"}
    assert {file.stem for file in (folder / "figures").iterdir()} >= {"training", "ways", "steps-additive", "steps-fft"}
    (record,) = project.records.glob("*.jsonl")
    assert '"way/longest"' in record.read_text("utf-8")
    assert "ways/claims.py" in (folder / "config.yaml").read_text("utf-8"), "its code is part of the digest"

    page = report(root.report, root.studies, {}, root.tasks, project=project).page.read_text("utf-8")
    first = page[page.index("What was found?") : page.index('id="study-trips"')]
    assert re.search("Length of the way</th><td>additive", first)
    for text in ("Which arm took the longer way?", "How did they go?", "Length of the way of each run", "another way"):
        assert text in page[page.index('id="study-trips"') :]

    found = notebook.load("trips", project=project.folder)
    assert {"ways", "losses", "comparison"} <= set(found.tables)
    assert found.view("steps").values == ["additive", "fft"]

    monkeypatch.chdir(project.folder)
    assert app(["reproduce", "trips"], standalone_mode=False) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "4 fail"


@pytest.mark.parametrize(
    "returned, said",
    [
        ("3", "kind 'ways': tables is 3; expected a pandas.DataFrame under a new name"),
        ("{'x': [1]}", "kind 'ways': x is [1]; expected a pandas.DataFrame"),
        ("{'seeds': __import__('pandas').DataFrame()}", "kind 'ways': seeds is "),
        ("{'transformed': __import__('pandas').DataFrame()}", "kind 'ways': transformed is "),
    ],
)
def test_what_is_no_table_is_named(project: Project, returned: str, said: str) -> None:
    (project.folder / "plugins/ways/tables.py").write_text(f"def tables(studies, **_):\n    return {returned}\n")
    Configuration(project.folder)
    with pytest.raises(InputError) as refused:
        kinds.kind("ways").tables({})
    assert said in str(refused.value)


def test_a_folder_of_plugins_has_its_kinds(project: Project) -> None:
    file = project.folder / "params.yaml"
    file.write_text(file.read_text("utf-8").replace("plugins/ways", "plugins"), "utf-8")
    Configuration(project.folder)
    assert kinds.kind("ways").folder == project.folder / "plugins/ways"


def test_a_change_of_its_code_is_another_run(project: Project) -> None:
    Configuration(project.folder)
    before = plugins.kind_digests("ways")
    file = project.folder / "plugins/ways/tables.py"
    file.write_text(file.read_text("utf-8").replace(".abs()", ""), "utf-8")
    after = plugins.kind_digests("ways")
    assert [name for name in before if before[name] != after[name]] == ["ways/tables.py"]
    assert set(before) == {f"ways/{name}" for name in FILES if name.endswith(".py")}


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("kind: ways", "kind: wais", "studies.trips.kind: no kind 'wais'; did you mean 'ways'?"),
        ("kind: ways", "kind: spaces", "studies.trips.kind: no kind 'spaces'"),
    ],
)
def test_what_is_no_kind_is_named(project: Project, old: str, new: str, said: str) -> None:
    file = project.folder / "params.yaml"
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(InputError) as refused:
        Configuration(project.folder)
    assert said in str(refused.value)
