"""A run of more epochs starts from the kept state of a shorter run, and gives the bytes of an uninterrupted run."""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from isoscope.base.atomic_files import fault
from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
from isoscope.platform.runs import earlier, stored
from isoscope.platform.runs.record import read
from isoscope.platform.stages.study_cells import Setup, training_job
from isoscope.platform.stages.train import CellJob, train
from start_material import ROOT, Made, made_in, tree
from training_runs import files

CELL = ("half_depth", "masked-additive", 0)
LENGTH = ("training.budget=null", "training.schedule.epochs=4", "training.batch_size=64")
POINTS = "points: {layer: -1, vectors: mean, most: 16}"
PENALTY = f"penalty={{kind: cosine, weight: 0.1, warmup: 0.0, {POINTS}}}"
WATCH = "training.watch={layer: -1, vectors: mean, sample: 16, clusters: 2}"
ALLOCATION = (
    "training.allocation={sentences: 16, folds: 2, estimator: simpson, tolerance: 2e-3, most_splits: 2, dense: 3, "
    "chords: 0, heads: true, minibatch: true, parts: true}"
)
SNAPSHOTS = ("training.snapshots.steps=powers", "training.snapshots.epochs=true")
WARMED, SPREAD = PENALTY.replace("warmup: 0.0", "warmup: 0.5"), ALLOCATION.replace("chords: 0", "chords: 1")
FAR = ALLOCATION.replace("dense: 3", "dense: 9").replace("2e-3", "10.0").replace("most_splits: 2", "most_splits: 64")
"""The share of the tolerance that an interval may use depends on how many there are."""
STEEP = "training.learning_rate=0.03"
STARTS = "not a continuation of the finished run"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with made_in(tmp_path_factory.mktemp("longer")) as found:
        yield found


class Copy(NamedTuple):
    """The prepared project without a run, in another folder."""

    project: Project

    def job(self, epochs: int, *given: str, keep_state: bool = True) -> CellJob:
        changes = (*LENGTH, f"training.epochs={epochs}", f"training.keep_state={str(keep_state).lower()}", *given)
        known = dict(one.split("=", 1) for one in changes)
        configuration = Configuration(ROOT, [f"{name}={value}" for name, value in known.items()], raw=tree())
        return training_job(Setup(configuration, self.project, "train"), *CELL)

    def train(self, epochs: int, *given: str, keep_state: bool = True) -> Path:
        return train(self.job(epochs, *given, keep_state=keep_state), output=self.project.folder / "published")

    def output(self, *steps: int, given: tuple[str, ...] = ()) -> dict[str, bytes]:
        """The files published by the last of these runs; a single run keeps no state."""
        return [files(self.train(epochs, *given, keep_state=len(steps) > 1)) for epochs in steps][-1]


@pytest.fixture
def copies(made: Made, tmp_path: Path) -> Iterator[Copy]:
    def copy(number: int) -> Copy:
        folder = tmp_path / str(number)
        shutil.copytree(made.setup.project.folder / "data", folder / "data")
        return Copy(Project(folder, folder))

    return map(copy, count())


CASES: dict[str, tuple[str, ...]] = {
    "best": ("training.keep=best",),
    "last": ("training.keep=last", *SNAPSHOTS),
    "all": ("training.keep=all", *SNAPSHOTS),
    "penalty": ("training.keep=best", PENALTY),
    "watch": ("training.keep=best", WATCH, PENALTY),
    "allocation": ("training.keep=last", ALLOCATION),
    "worse": ("training.keep=best", "training.learning_rate=0.3", "training.select=loss"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [(2, 4), (1, 2, 3)], ids=["2 to 4", "1 to 2 to 3"])
def test_the_bytes_are_those_of_an_uninterrupted_run(
    copies: Iterator[Copy], capsys: pytest.CaptureFixture[str], case: str, steps: tuple[int, ...]
) -> None:
    found = next(copies).output(*steps, given=CASES[case])
    said = capsys.readouterr().err
    assert said.count("from its kept state") == len(steps) - 1
    assert "warning" not in said
    expected = next(copies).output(steps[-1], given=CASES[case])
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


@pytest.mark.parametrize(
    "given, line",
    [
        (("training.schedule.epochs=null",), "training.schedule.epochs is null: the schedule of the learning rate cov"),
        ((WARMED,), "penalty.warmup is 0.5: a share of the whole run"),
        ((SPREAD,), "training.allocation.chords is not 0: they cover the whole run"),
        ((FAR, STEEP), "training.allocation.dense exceeds the 4 updates of the shorter run"),
    ],
    ids=["schedule", "warmup", "chords", "dense"],
)
def test_what_depends_on_the_length_is_named_and_gives_other_bytes(
    copies: Iterator[Copy],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    line: str,
) -> None:
    whole = next(copies).output(2, given=given)
    refused = next(copies)
    refused.train(1, *given)
    capsys.readouterr()
    assert files(refused.train(2, *given)) == whole
    said = capsys.readouterr().err
    assert f"{STARTS} {refused.job(1, *given).run.digest[:12]}: training.epochs 1 → 2; {line}" in said
    assert "it trains from epoch 1" in said
    monkeypatch.setattr(earlier, "_unmet", lambda *_: None)
    wrong = next(copies).output(1, 2, given=given)
    assert "from its kept state" in capsys.readouterr().err
    assert wrong != whole, "the condition is needed"


@pytest.mark.parametrize(
    "given, line",
    [
        (("training.patience=3",), "training.patience is 3, not null: early stopping decides where a run ends"),
        (
            ("training.budget={kind: updates, number: 3}", "training.schedule.epochs=null"),
            "training.budget is not null: it decides where a run ends",
        ),
        (("training.keep_state=false",), "the run of 1 epoch kept no state (training.keep_state)"),
    ],
)
def test_the_first_condition_that_fails_is_named(
    copies: Iterator[Copy], capsys: pytest.CaptureFixture[str], given: tuple[str, ...], line: str
) -> None:
    project = next(copies)
    project.train(1, *given)
    capsys.readouterr()
    project.train(2, *given)
    assert f"training.epochs 1 → 2; {line}" in capsys.readouterr().err


def broken(project: Copy) -> None:
    (project.job(1).run.states / "step-000000004" / "model.safetensors").write_bytes(b"")


def lost(project: Copy) -> None:
    shutil.rmtree(project.job(1).run.output)
    shutil.rmtree(project.project.folder / "published")


def changed(project: Copy) -> None:
    (project.job(1).run.output / "metrics.jsonl").unlink()
    shutil.rmtree(project.project.folder / "published")


@pytest.mark.parametrize(
    "damage, line",
    [
        (broken, "the run of 1 epoch kept a damaged state: model.safetensors has changed since it was written"),
        (lost, "the output of the run of 1 epoch is not here; restore it with dvc pull"),
        (changed, "the output of the run of 1 epoch is not here; restore it with dvc pull"),
    ],
)
def test_a_damaged_beginning_is_no_beginning(
    copies: Iterator[Copy], capsys: pytest.CaptureFixture[str], damage: Callable[[Copy], None], line: str
) -> None:
    project = next(copies)
    project.train(1)
    damage(project)
    capsys.readouterr()
    found = files(project.train(2))
    assert line in capsys.readouterr().err
    assert found == next(copies).output(2)


def test_the_published_output_serves_if_the_stored_output_is_gone(
    copies: Iterator[Copy], capsys: pytest.CaptureFixture[str]
) -> None:
    project = next(copies)
    project.train(1)
    shutil.rmtree(project.job(1).run.output)
    given = project.project.folder / "elsewhere"
    train(project.job(2), output=given)
    assert "from its kept state" in capsys.readouterr().err
    assert files(given) == next(copies).output(2)


def test_the_shorter_run_stays_and_the_record_names_it(
    copies: Iterator[Copy], capsys: pytest.CaptureFixture[str]
) -> None:
    project = next(copies)
    project.train(1)
    shorter, longer = project.job(1).run, project.job(2).run
    before = files(shorter.output) | {f"states/{name}": text for name, text in files(shorter.states).items()}
    (state,) = stored.states_of(shorter.folder)
    project.train(2)
    assert files(shorter.output) | {f"states/{name}": text for name, text in files(shorter.states).items()} == before
    assert fault(state) is None
    assert shorter.finished
    record = read(project.project.records / f"{longer.digest}.jsonl")
    assert [one.began for one in record.attempts] == [{"run": shorter.digest, "step": 4}]
    steps = [point.step for point in record.metrics if point.name == "validation/loss"]
    assert steps == [0, 4, 8], "it holds the points of both, once each"
    assert (record.damaged, record.mended) == (0, 0)
    assert [one.name for one in stored.states_of(longer.folder)] == ["step-000000008"], "only the last state is kept"
    capsys.readouterr()
    project.train(3, "training.learning_rate=1e-3")
    assert "training.learning_rate 0.003 → 0.001; training.schedule" not in capsys.readouterr().err
    params = json.dumps(record.run.params if record.run else None)
    assert "keep_state" not in params, "no part of the run"
