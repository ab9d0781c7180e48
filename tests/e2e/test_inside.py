"""The hidden-state stages run once, resume, are cached, are mirrored, and give one page with an explorer."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from filelock import FileLock

from browser import opened
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
from pipeline_project import ARMS, INSIDE, Done, Finished, Project, family, left, make, wait_for
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


@pytest.fixture(scope="session")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A project after the hidden-state stages: never changed, only copied."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "popen" in base.name else base
    folder, ended = shared / "explored", shared / "explored.json"
    with FileLock(shared / "explored.lock"):
        if not ended.exists():
            project = make(folder, inside=True)
            project.edit("profiles/tiny.yaml", "  epochs: 4\n", "  epochs: 2\n")  # fewer snapshots to measure
            project.edit(
                "profiles/tiny.yaml", "    steps: none\n    epochs: false\n", "    steps: powers\n    epochs: true\n"
            )
            project.isoscope("profile", "--reset")
            project.isoscope("profile", "tiny")
            project.commit("With snapshots")
            first = project.isoscope("repro")
            project.isoscope("mirror")  # what a loaded machine may have left
            project.commit("Results")
            ended.write_text(json.dumps(first))
    return Finished(Project(folder), Done(*json.loads(ended.read_text())))


@pytest.fixture
def project(explored: Finished, tmp_path: Path) -> Project:
    return explored.project.copy(tmp_path / "project", mirrored=False)


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
    copy = explored.project
    assert copy.isoscope("repro").ran == []


def _texts(project: Project, split: str) -> list[str]:
    return pd.read_parquet(project.folder / f"data/processed/tiny/{split}.parquet")["sentence"].tolist()


def test_a_cell_of_one_point_is_marked_and_has_no_figures(explored: Finished) -> None:
    table = measured(explored.project, "additive")
    single = table[(table["vectors"] == "first") & (table["layer"] == 0)]
    assert single["degenerate"].all()
    assert single["value"].isna().all()
    assert not table[table["layer"] == 1]["degenerate"].any()


def test_each_figure_is_a_metric_of_a_run_that_names_the_training_run(explored: Finished) -> None:
    tracked = explored.project.tracked()
    by_name = {run.name: run for run in tracked.values()}
    names = ("additive seed 0", "extract additive seed 0", "measure additive seed 0")
    trained, extracted, found = (by_name[name] for name in names)
    assert {run.status for run in by_name.values()} == {"FINISHED"}
    digest = {run.tags["isoscope.digest"] for run in (trained,)}
    assert extracted.tags["isoscope.dep.trained by"] in digest
    assert extracted.tags["reads"].split()[0] in digest
    assert found.tags["isoscope.dep.extracted by"] == extracted.tags["isoscope.digest"]
    table = measured(explored.project, "additive")
    rows = table[
        (table["figure"] == "avg_sim") & (table["layer"] == 1) & (table["vectors"] == "first") & table["step"].notna()
    ]
    assert found.points["geometry/layer_01/first/avg_sim"] == [
        (int(step), pytest.approx(value)) for step, value in zip(rows["step"], rows["value"], strict=True)
    ]


def test_a_measure_in_one_file_stands_in_every_result(project: Project) -> None:
    """Curves over training, a map by layer beside random weights, differences of arms, MLflow; no model runs."""
    (project.folder / "plugins/norms.py").write_text(PLUGIN, "utf-8")
    project.edit("params.yaml", "plugins: []", "plugins: [plugins/norms.py]")
    project.edit("params.yaml", "  names:\n", "  names:\n  - norms\n")
    before = {arm: file_md5s(states(project, arm)) for arm in ARMS}
    extracted = {digest for digest, record in project.records().items() if record.run.stage == "extract"}
    project.isoscope("states", "fusion")
    assert {digest for digest, record in project.records().items() if record.run.stage == "extract"} == extracted
    assert {arm: file_md5s(states(project, arm)) for arm in ARMS} == before
    table = measured(project, "conv2d")
    norms = table[table["figure"] == "mean_norm"]
    assert len(norms) == len(table[table["figure"] == "avg_sim"])
    assert norms.loc[norms["snapshot"] == "random", "value"].notna().any()
    project.isoscope("analyse", "fusion")
    project.isoscope("report")
    parts = project.folder / "reports/parts/fusion"
    drawn = {path.stem for path in (parts / "figures").glob("*.svg")}
    assert {f"{name}-{kind}" for name in ("own-norms", "layers-mean_norm") for kind in ("first", "words")} <= drawn
    found = pd.read_parquet(parts / "tables/differences.parquet")
    assert {"mean_norm", "mean_norm of words"} <= set(found["figure"])
    page = (project.folder / "reports/index.html").read_text("utf-8")
    assert "The measure norms of [CLS] over training." in page
    assert "Mean norm, of sampled words, by layer and snapshot." in page
    project.isoscope("mirror")
    (run,) = (run for run in project.tracked().values() if "geometry/layer_01/first/mean_norm" in run.points
              and run.name == "measure conv2d seed 0")  # fmt: skip
    rows = norms[(norms["layer"] == 1) & (norms["vectors"] == "first") & norms["step"].notna()]
    assert [step for step, _ in run.points["geometry/layer_01/first/mean_norm"]] == rows["step"].tolist()


def test_an_altered_file_is_put_back(project: Project) -> None:
    before = file_md5s(states(project, "additive"))
    published = file_md5s(states(project, "additive") / "states")
    stored = next(
        path
        for path in project.folder.glob(".isoscope/runs/*/output/states/random.safetensors")
        if file_md5s(path.parent) == published
    )
    data = bytearray(stored.read_bytes())
    data[-9] ^= 1
    stored.unlink()
    stored.write_bytes(bytes(data))
    done = project.isoscope("states", "fusion", "additive")
    assert "restored from its published copy" in done.err
    assert file_md5s(states(project, "additive")) == before


def test_a_killed_extraction_goes_on_and_ends_with_the_same_bytes(project: Project) -> None:
    settings = ("-S", "extraction.seed=5")
    known = project.records()
    project.isoscope("states", "fusion", "additive", *settings)
    made = {record.run.stage: digest for digest, record in project.records().items() if digest not in known}
    before = file_md5s(project.folder / ".isoscope/runs" / made["extract"] / "output")
    held = project.copy(project.folder.parent / "killed")
    runs = held.folder / ".isoscope/runs" / made["extract"]
    for digest in made.values():
        shutil.rmtree(held.folder / ".isoscope/runs" / digest)
        (held.folder / ".isoscope/records" / f"{digest}.jsonl").unlink()
    process = held.start("states", "fusion", "additive", *settings)
    deadline = time.monotonic() + 600
    while len(list(runs.glob("work/states/*.safetensors"))) < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    first = min(runs.glob("work/states/*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
    at = first.stat().st_mtime_ns
    held.isoscope("states", "fusion", "additive", *settings)
    again = runs / "output"
    assert file_md5s(again) == before
    assert (again / "states" / first.name).stat().st_mtime_ns == at, "what was done is not done again"


@pytest.mark.exhaustive  # tests/test_workers.py
def test_several_processes_measure_what_one_does(project: Project) -> None:
    found = []
    for processes in (1, 3):
        settings = ("-S", "measures.seed=5", "-S", f"measures.processes={processes}")
        done = project.isoscope("states", "fusion", "conv2d", *settings, "--json")
        output = Path(json.loads(done.out)["folders"][0])
        record = project.records()[output.parent.name]
        found.append((file_md5s(output), [(point.name, point.step, point.value) for point in record.metrics]))
        shutil.rmtree(output.parent)
        (project.folder / ".isoscope/records" / f"{output.parent.name}.jsonl").unlink()
    assert found[0] == found[1]
    assert len(found[0][0]) > 5


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
    everyone = family(process)
    assert {int(path.name.removeprefix("slow-")) for path in project.folder.glob("slow-*")} < {
        one.pid for one in everyone
    }
    process.send_signal(number)
    _, said = process.communicate()
    assert left(everyone) == []
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in said


@pytest.mark.exhaustive
def test_a_run_that_kept_its_chosen_epoch_alone_is_explored_too(project: Project) -> None:
    """With one snapshot and too few measures for phases: fewer figures, no error; and a measure of a plugin."""
    (project.folder / "plugins/norms.py").write_text(PLUGIN, "utf-8")
    project.edit("params.yaml", "plugins: []", "plugins: [plugins/norms.py]")
    project.edit("params.yaml", "    steps: powers", "    steps: none")
    project.edit("params.yaml", "    epochs: true", "    epochs: false")
    project.edit("params.yaml", "  - anisotropy\n  - isoscore\n  - similarity\n  - classes\n", "  - norms\n")
    project.isoscope("repro")
    table = pd.read_parquet(project.folder / "reports/parts/fusion/tables/geometry.parquet")
    assert set(table["figure"]) == {"mean_norm"}
    assert len(Trajectory(states(project, "conv2d")).trained) == 1
    assert json.loads((project.folder / "reports/parts/fusion/tables/phases.json").read_text("utf-8")) == []
    assert "explorer" in (project.folder / "reports/index.html").read_text("utf-8")


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


def test_wrong_input_is_one_line(project: Project) -> None:
    for words, said in (
        (("states", "fusion", "additiv"), "did you mean 'additive'?"),
        (("states", "fusion", "additive", "--seed", "9"), "isoscope train fusion additive --seed 9"),
        (("states", "fusion", "additive", "-S", "measures.names=[isotrophy]"), "no measure 'isotrophy'"),
        (("states", "fusion", "additive", "-S", "measures.perplexity=0"), "measures.perplexity"),
        (("states", "fusion", "additive", "-S", "extraction.treebank={file: nowhere, sentences: 3}"), "'nowhere'"),
    ):
        done = project.isoscope(*words, code=2)
        assert said in done.err
        assert done.err.strip().count("\n") == 0
        assert "Traceback" not in done.err


def test_the_notebook_reads_what_the_pipeline_wrote(project: Project) -> None:
    import isoscope
    from isoscope.base.errors import InputError
    from isoscope.notebook import load

    found = load("fusion", project=project.folder)
    assert {"geometry", "attention", "cosines", "frames"} <= set(found.tables)
    assert set(found.table("geometry")["arm"]) == set(ARMS)
    with pytest.raises(InputError, match="no table 'geometri'; did you mean 'geometry'"):
        found.table("geometri")
    drawn = {path.stem: path for path in (project.folder / "reports/parts/fusion").rglob("*.svg")}
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


def test_the_documented_lines_read_the_study(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of docs/inside.md on tables and views."""
    monkeypatch.chdir(project.folder)
    page = Page("docs/inside.md")
    next(block for block in page.blocks("python") if "isoscope.load" in block.parsed).evaluate()
    assert page.namespace["study"].views


@pytest.mark.chromium
def test_the_explorer_moves_with_its_sliders(explored: Finished) -> None:
    data = json.loads((explored.project.folder / "reports/parts/fusion/tables/explorer.json").read_text("utf-8"))
    with opened(explored.project.folder / "reports/index.html") as seen:
        box = seen.page.locator(".explorer")

        def slide(name: str, value: int) -> None:
            slider = box.locator(f"input[name='{name}']")
            slider.focus()
            slider.press("Home")
            for _ in range(value):
                slider.press("ArrowRight")

        for arm, layer, snapshot in ((0, 1, 2), (1, 1, 4), (1, 0, 0)):
            for name, value in (("arm", arm), ("seed", 0), ("layer", layer), ("snapshot", snapshot)):
                slide(name, value)
            run = data["runs"][arm]
            shown = box.locator(".sliders").inner_text()
            assert run["arm"] in shown
            assert f"update {run['steps'][snapshot]}" in shown
            points = run["points"][layer][snapshot]
            dots = box.locator("circle")
            assert dots.count() == len(data["sentences"])
            drawn = dots.evaluate_all("all => all.map(e => [+e.getAttribute('cx'), -e.getAttribute('cy')])")
            assert [value for pair in drawn for value in pair] == points
        slide("arm", 1)
        slide("layer", 1)
        box.locator("circle").last.hover(force=True)  # none lies above it
        assert data["sentences"][-1] in box.locator("output.sentence").inner_text()
        slide("arm", 0)
        slide("layer", 0)
        assert "All sentences share their vectors" in box.locator(".facts").inner_text()
        assert seen.requests == []
        assert seen.complaints == []
        assert len((explored.project.folder / "reports/index.html").read_bytes()) < 5_000_000


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
