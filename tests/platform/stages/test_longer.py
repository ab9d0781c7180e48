"""A run of more epochs starts from the kept state of a shorter run, and gives the bytes of an uninterrupted run."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with made_in(tmp_path_factory.mktemp("longer")) as found:
        yield found


class Copy(NamedTuple):
    """The prepared project without a run, in another folder."""

    project: Project

    def job(self, epochs: int, *given: str, keep_state: bool = True) -> CellJob:
        changes = (*LENGTH, f"training.epochs={epochs}", f"training.keep_state={str(keep_state).lower()}")
        named = dict(one.split("=", 1) for one in (*changes, *given))
        known = Configuration(ROOT, [f"{name}={value}" for name, value in named.items()], raw=tree())
        return training_job(Setup(known, self.project, "train"), *CELL)

    def train(self, epochs: int, *given: str, keep_state: bool = True) -> Path:
        return train(self.job(epochs, *given, keep_state=keep_state), output=self.project.folder / "published")

    def output(self, *steps: int, given: tuple[str, ...] = ()) -> dict[str, bytes]:
        """The files published by the last of these runs."""
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
    "translation": (),
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
