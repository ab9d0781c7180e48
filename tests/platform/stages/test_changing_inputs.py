"""Inputs that change while a run is under way: what was read is what the digest names, or the run fails."""

import ast
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import isoscope.platform.stages
from isoscope.base import paths
from isoscope.base.errors import InputError, RunError
from isoscope.base.paths import Project
from isoscope.base.processes import StopSignal
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.platform.config.load import Configuration
from isoscope.platform.runs.record import read
from isoscope.platform.runs.run import Run, tracked
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.search_runs import plan
from isoscope.platform.stages.study_run import checked_stores, input_md5, study_run
from isoscope.platform.stages.train import train
from isoscope.states.given_checkpoints import Checkpoint
from isoscope.training import job as training
from start_material import ROOT, Made, made_in
from trained_projects import DATA, OVERLAY

CELL = ("half_depth", "masked-additive", 0)
PREPARED = paths.processed("reordered")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A project with a prepared task, and beside it other data of this task."""
    with made_in(tmp_path_factory.mktemp("changing")) as found:
        other = found.setup.project.folder / "other"
        smaller = Configuration(ROOT, [*DATA, f"{OVERLAY}.source.seed=7"])
        prepare(smaller.data("reordered"), task="reordered", project=found.setup.project, output=other)
        yield found


@pytest.fixture
def exchange(made: Made) -> Iterator[Callable[[], None]]:
    """Exchange the prepared data for the others, once; they are put back."""
    folder = made.setup.project.folder
    kept = folder / "kept"

    def do() -> None:
        if not kept.exists():
            (folder / PREPARED).rename(kept)
            shutil.copytree(folder / "other", folder / PREPARED)

    yield do
    if kept.exists():
        shutil.rmtree(folder / PREPARED)
        kept.rename(folder / PREPARED)


def before(patch: pytest.MonkeyPatch, owner: object, name: str, do: Callable[[], None]) -> None:
    """`do` something before each call of a function."""
    own = getattr(owner, name)

    def both(*given: Any, **options: Any) -> Any:
        do()
        return own(*given, **options)

    patch.setattr(owner, name, both)


@pytest.mark.parametrize("moment", ["_accelerator", "Task", "penalised"])
def test_data_exchanged_while_a_run_is_under_way_fail_it(
    made: Made, exchange: Callable[[], None], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before anything is read; while the task is read; and later, because checkpoints take their tokenizer from it."""
    work = made.job(*CELL)
    before(monkeypatch, training, moment, exchange)
    with pytest.raises(RunError, match=r"^masked-additive seed 0: data has changed since this run began"):
        train(work, output=None)
    assert not work.run.output.exists()
    assert read(made.setup.project.records / f"{work.run.digest}.jsonl").status == "FAILED"


def test_the_same_command_resumes_with_the_data_put_back(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(made.job(*CELL), output=None).is_dir()
    assert "resuming from step 4/4" in capsys.readouterr().err


def test_a_checkpoint_that_changes_while_it_is_read_is_not_cached(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    one = Checkpoint("model", folder, checkpoint_digest(folder), "model")
    one.check_unchanged()
    (folder / "model.safetensors").write_text("other")
    with pytest.raises(RunError, match=r"^model: has changed while it was read; run the same command again$"):
        one.check_unchanged()


@pytest.mark.parametrize("name", ["models/x/metrics.jsonl", "data/processed/x", "data/measures/x"])
def test_a_study_of_inputs_that_change_fails(made: Made, name: str) -> None:
    """Files of runs, prepared data without their settings, and folders."""
    project = made.setup.project
    file = project.folder / name if name.endswith("jsonl") else project.folder / name / "table"
    file.parent.mkdir(parents=True)
    file.write_text("one")
    inputs = {name: input_md5(name, project)}
    given: dict[str, Any] = {"params": {}, "inputs": inputs, "kind": "arms"}
    with study_run("analyse", "reordered", name.replace("/", "_"), project, **given) as (run, _):
        run.check_inputs()
        if name == "data/processed/x":
            (file.parent / "settings.json").write_text("{}")
            run.check_inputs()
        file.write_text("two")
        with pytest.raises(RunError, match=rf"{name} has changed since this run began"):
            run.check_inputs()


@pytest.mark.parametrize("store", ["states", "measures"])
def test_the_command_that_makes_what_a_kind_reads_is_named(tmp_path: Path, store: str) -> None:
    study, project = SimpleNamespace(seeds=[0]), Project(tmp_path, tmp_path)
    with pytest.raises(InputError, match=r"study 'x': 1 of 1 runs are missing \(data/.*; run: isoscope states x$"):
        checked_stores("x", study, ["a"], [store], project)  # type: ignore[arg-type]


def test_a_result_of_changed_inputs_is_no_output(made: Made) -> None:
    """As in `extract` and `measure`, which read until their end."""
    work = made.job(*CELL).run
    found = dict(work.identity.inputs)
    run = Run(made.setup.project, work.identity._replace(study="other", seed=5), inputs=lambda: found)

    def measured() -> None:
        with StopSignal() as stop, tracked(run, stop):
            run.begin(device="cpu", threads=1, precision="fp32")
            run.work.mkdir(parents=True)
            found["data"] = "another"
            run.complete()

    with pytest.raises(RunError, match="data has changed"):
        measured()
    assert run.work.is_dir(), "nothing is lost"
    assert not run.output.exists()
    assert read(made.setup.project.records / f"{run.digest}.jsonl").status == "FAILED"


def test_a_search_of_data_that_have_changed_stops(made: Made) -> None:
    """Its trials must share their data."""
    search = SimpleNamespace(
        objectives={"validation/loss": "minimise"},
        constraints={},
        seeds=[0],
        study="half_depth",
        arm="masked-additive",
        settings=(),
        name="x",
        at="last",
    )
    runs = plan(made.setup.configuration, search, made.setup.project, data="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^data/processed/reordered: has changed since this search began"):
        runs({})


def test_every_stage_hashes_its_inputs_again() -> None:
    """A stage that makes a run says how to hash its inputs, and checks them when it has read them."""
    for path in sorted(Path(isoscope.platform.stages.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        named = {ast.unparse(call.func) for call in calls}
        for call in calls:
            if ast.unparse(call.func) == "Run":
                assert "inputs" in {keyword.arg for keyword in call.keywords}, path.name
        if "study_run" in named:
            assert "run.check_inputs" in named, path.name
