"""The hidden-state stages run once, resume, are cached, are mirrored, and give one page with an explorer."""

import re
import signal
from pathlib import Path

import pandas as pd
import pytest
import torch

from isoscope.platform.figures.style import to_svg
from isoscope.platform.results.study_tables import read_tables
from isoscope.platform.runs.provenance import file_md5s
from isoscope.platform.stages.states import kept_weights
from isoscope.states.extract import snapshots_of
from isoscope.states.trajectory import Trajectory
from isoscope.studies.arms import views as arms
from isoscope.studies.curves import averages, curves, thinned
from isoscope.studies.fusion import views as fusion
from isoscope.studies.isotropy import views as isotropy
from isoscope.studies.isotropy.doses import Dose
from page_blocks import Page
from pipeline_project import ARMS, INSIDE, Finished, Project, family, strike, wait_for
from struck_views import wrong

pytestmark = pytest.mark.slow

PLUGIN = """\
import numpy as np
from isoscope.plugins import measure


@measure("norms")
def norms(cell):
    return {"mean_norm": float(np.linalg.norm(cell.points, axis=1).mean())}
"""

SLOW = """\
import os
import time
from pathlib import Path
from isoscope.plugins import measure


@measure("slow")
def slow(cell):
    Path(f"slow-{os.getpid()}").touch()
    time.sleep(600)
    return {"slow": 0.0}
"""


@pytest.fixture(scope="module")
def project(explored: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy for the tests that change something, in order."""
    return explored.project.copy(tmp_path_factory.mktemp("inside") / "project", mirrored=False)


def states(project: Project, arm: str) -> Path:
    return project.folder / "data/hidden_states/fusion" / arm / "seed-0"


def measured(project: Project, arm: str) -> pd.DataFrame:
    return pd.read_parquet(project.folder / "data/measures/fusion" / arm / "seed-0/geometry.parquet")


def test_the_pipeline_looks_inside_each_arm_and_a_second_time_runs_nothing(explored: Finished) -> None:
    ran = [stage for stage in explored.first.ran if stage.partition("@")[0] in INSIDE]
    assert sorted(ran) == ["search", "states@fusion"]
    run = Trajectory(states(explored.project, "additive"))
    names = [one.name for one in run.snapshots]
    assert {"step-0", "step-1", "step-2", "random"} <= set(names)
    assert sum(one.best for one in run.snapshots) == 1
    assert run.arrays(run.best).shape("first")[:2] == (2, len(run.probe))
    kept = {text for split in ("train", "validation") for text in _texts(explored.project, split)}
    assert not kept & set(run.probe["text"]), "a sentence that trained or selected the model"
    assert explored.project.isoscope("repro").ran == []
    table = measured(explored.project, "additive")
    single = table[(table["vectors"] == "first") & (table["layer"] == 0)]
    assert single["degenerate"].all(), "a cell of one point"
    assert single["value"].isna().all()
    assert not table[table["layer"] == 1]["degenerate"].any()


def _texts(project: Project, split: str) -> list[str]:
    return pd.read_parquet(project.folder / f"data/processed/tiny/{split}.parquet")["sentence"].tolist()


def test_each_figure_is_a_metric_of_a_run_that_names_the_training_run(explored: Finished) -> None:
    tracked = explored.project.tracked(mirrored=False)
    by_name = {run.name: run for run in tracked.values()}
    trained, extracted, found = (by_name[f"{stage}additive seed 0"] for stage in ("", "extract ", "measure "))
    assert {run.status for run in by_name.values()} == {"FINISHED"}
    digest = trained.tags["isoscope.digest"]
    assert extracted.tags["isoscope.dep.trained by"] == extracted.tags["reads"].split()[0] == digest
    assert found.tags["isoscope.dep.extracted by"] == extracted.tags["isoscope.digest"]
    table = measured(explored.project, "additive")
    rows = table[
        (table["metric"] == "avg_sim") & (table["layer"] == 1) & (table["vectors"] == "first") & table["step"].notna()
    ]
    assert found.points["geometry/layer_01/first/avg_sim"] == [
        (int(step), pytest.approx(value)) for step, value in zip(rows["step"], rows["value"], strict=True)
    ]


def test_wrong_input_is_one_line(project: Project) -> None:
    for words, said in (
        (("states", "fusion", "additiv"), "did you mean 'additive'?"),
        (("states", "fusion", "additive", "--seed", "9"), "--seed 9: not among studies.fusion.seeds"),
        (("states", "fusion", "additive", "-S", "measures.names=[isotrophy]"), "no measure 'isotrophy'"),
        (("states", "fusion", "additive", "-S", "measures.perplexity=0"), "measures.perplexity"),
        *[
            (("states", "fusion", "additive", "-S", "measures.device=cuda"), "use -S measures.device=cpu"),
        ][: not torch.cuda.is_available()],
        (("states", "fusion", "additive", "-S", "extraction.treebank={file: nowhere, sentences: 3}"), "'nowhere'"),
    ):
        assert said in project.refused(*words)


@pytest.mark.parametrize("number", [
    pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive),
    pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive),
    signal.SIGKILL,
])  # fmt: skip
def test_measuring_in_several_processes_ends_at_once(project: Project, number: signal.Signals) -> None:
    (project.folder / "plugins/slow.py").write_text(SLOW, "utf-8")
    settings = ("-S", "measures.names=[slow]", "-S", "measures.processes=2", "--plugin", "plugins/slow.py")
    process = project.start("states", "fusion", "additive", *settings)
    wait_for(lambda: len(list(project.folder.glob("slow-*"))) == 2)
    notes = [*project.folder.glob("slow-*")]
    assert {int(path.name.removeprefix("slow-")) for path in notes} < {one.pid for one in family(process)}
    code, said = strike(process, number)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)
    for path in notes:
        path.unlink()
    assert "Traceback" not in said


def test_a_study_under_another_name_extracts_and_measures_nothing(project: Project, tmp_path: Path) -> None:
    """The published outputs have the study's name in config.yaml."""
    there = project.copy(tmp_path / "there", mirrored=False)
    there.edit("params.yaml", "\n  fusion:\n    kind: fusion", "\n  renamed:\n    kind: fusion")
    before = set(there.records())
    there.isoscope("train", "renamed")
    there.isoscope("states", "renamed")
    assert set(there.records()) == before
    assert (there.folder / "data/measures/renamed/conv2d/seed-0/geometry.parquet").is_file()


def test_a_measure_in_one_file_stands_in_every_result(project: Project) -> None:
    """Curves over training, a map by layer beside random weights, differences of arms, MLflow; no model runs."""
    (project.folder / "plugins/norms.py").write_text(PLUGIN, "utf-8")
    project.edit("params.yaml", "plugins: []", "plugins: [plugins/norms.py]")
    project.lay("measures: {names: [norms, similarity]}")
    before = {arm: file_md5s(states(project, arm)) for arm in ARMS}
    extracted = {digest for digest, record in project.records().items() if record.run.stage == "extract"}
    project.isoscope("states", "fusion")
    assert {digest for digest, record in project.records().items() if record.run.stage == "extract"} == extracted
    assert {arm: file_md5s(states(project, arm)) for arm in ARMS} == before
    table = measured(project, "conv2d")
    norms = table[table["metric"] == "mean_norm"]
    assert len(norms) == len(table[table["metric"] == "avg_sim"])
    assert norms.loc[norms["snapshot"] == "random", "value"].notna().any()
    project.isoscope("analyse", "fusion")
    project.isoscope("report")
    parts = project.folder / "reports/parts/fusion"
    drawn = {path.stem for path in (parts / "figures").glob("*.svg")}
    assert {f"{name}-{kind}" for name in ("own-norms", "layers-mean_norm") for kind in ("first", "words")} <= drawn
    found = pd.read_parquet(parts / "tables/differences.parquet")
    assert {"mean_norm", "mean_norm of words"} <= set(found["metric"])
    page = (project.folder / "reports/index.html").read_text("utf-8")
    assert "The measure norms of [CLS] over training." in page
    assert "Mean norm, of sampled words, by layer and snapshot." in page
    (run,) = (run for run in project.tracked().values() if "geometry/layer_01/first/mean_norm" in run.points
              and run.name == "measure conv2d seed 0")  # fmt: skip
    rows = norms[(norms["layer"] == 1) & (norms["vectors"] == "first") & norms["step"].notna()]
    assert [step for step, _ in run.points["geometry/layer_01/first/mean_norm"]] == rows["step"].tolist()


def test_a_run_that_kept_its_chosen_epoch_alone_is_explored_too(project: Project) -> None:
    """With one snapshot: fewer figures, and no error."""
    project.edit("params.yaml", "    steps: powers", "    steps: none")
    project.edit("params.yaml", "    epochs: true", "    epochs: false")
    project.isoscope("repro")
    assert len(Trajectory(states(project, "conv2d")).trained) == 1
    assert set(measured(project, "conv2d")["snapshot"]) > {"random"}
    assert "explorer" in (project.folder / "reports/index.html").read_text("utf-8")


def test_an_arm_without_a_norm_after_its_embedding_block_is_compared(project: Project) -> None:
    project.isoscope("repro", "analyse@fusion", "-S", "studies.fusion.axes.fusion=[additive, marian]")
    tables = project.folder / "reports/parts/fusion/tables"
    for name in ("map", "cosine_maps"):
        assert {*pd.read_parquet(tables / f"{name}.parquet")["arm"]} == {"additive", "marian"}
    found = pd.read_parquet(tables / "differences.parquet")
    assert {"tokens' cosine: all", "tokens' neighbours: same word", "read back: position"} <= {*found["metric"]}
    assert {*found["arm"]} == {"marian"}


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_every_so_many_snapshots_the_first_the_chosen_and_the_last_always(explored: Finished, every: int) -> None:
    trained = explored.project.folder / "models/fusion/additive/seed-0"
    everything = [*snapshots_of(*kept_weights(trained), every=1)][:-1]
    *taken, twin = snapshots_of(*kept_weights(trained), every=every)
    assert twin.step is None
    assert {one.name for one in everything[::every]} <= {one.name for one in taken}
    assert [one.best for one in taken].count(True) == 1
    assert taken[-1] == everything[-1]
    assert len(taken) <= -(-len(everything) // every) + 2


def test_the_notebook_reads_what_the_pipeline_wrote(explored: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines run the block of docs/inside.md on tables and views."""
    import isoscope
    from isoscope.base.errors import InputError
    from isoscope.notebook import load

    found = load("fusion", project=explored.project.folder)
    assert {"geometry", "attention", "cosines", "frames"} <= set(found.tables)
    assert set(found.table("geometry")["arm"]) == set(ARMS)
    with pytest.raises(InputError, match="no table 'geometri'; did you mean 'geometry'"):
        found.table("geometri")
    drawn = {path.stem: path for path in (explored.project.folder / "reports/parts/fusion").rglob("*.svg")}
    assert set(found.views) == set(drawn)
    probing = found.view("probing")
    *_, last = probing.values
    name = f"probing-{last.replace(' ', '_')}"
    assert set(probing.table(last)["task"]) == {last}
    assert found.view(name).caption() == probing.caption(last)
    stored = re.sub(r"<metadata>.*?</metadata>", "", drawn[name].read_text("utf-8"), flags=re.S)
    again = re.sub(r"<metadata>.*?</metadata>", "", to_svg(probing.figure(last)), flags=re.S)
    assert again == stored, "the report's figure, drawn again from the tables"
    with pytest.raises(InputError, match="study 'fusion': no view 'probin'; did you mean"):
        found.view("probin")
    with pytest.raises(InputError, match="view 'probing': no figure of 'labl'; did you mean 'label'"):
        probing.figure("labl")
    assert isoscope.load is load
    monkeypatch.chdir(explored.project.folder)
    page = Page("docs/inside.md")
    next(block for block in page.blocks("python") if "isoscope.load" in block.parsed).evaluate()
    assert page.namespace["study"].views


def test_every_figure_of_a_study_survives_tables_without_numbers(
    explored: Finished, pytestconfig: pytest.Config
) -> None:
    every = bool(pytestconfig.getoption("--exhaustive"))
    parts = explored.project.folder / "reports/parts/fusion"
    assert wrong((*arms.VIEWS, *fusion.VIEWS), read_tables(parts).by_name, exhaustive=every) == []
    points = curves([explored.project.output(arm) for arm in ARMS])
    doses = pd.DataFrame([(arm, "none", "all", 0.0, 1.0) for arm in ARMS], columns=["arm", *Dose._fields])
    charted = {"averages": averages(points, last=0.5), "courses": thinned(points), "doses": doses}
    assert wrong(isotropy.VIEWS, charted, exhaustive=every) == []
