"""What a command says before it trains: why a run is new, settings without effect, and an absent device."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from isoscope.base.errors import InputError
from isoscope.models.build import check_device
from isoscope.platform.cli import app
from isoscope.platform.config.load import Configuration
from isoscope.platform.executor.placement import Placement
from isoscope.platform.stages.study_cells import Setup, states_cells, train_cells, training_job
from isoscope.platform.stages.train import train
from isoscope.training.job import rehearse
from start_material import ROOT, Made, made_in, tree

CELL = ("half_depth", "masked-additive", 0)
LONGER = ("training.budget=null", "training.log_every=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A project with a finished run."""
    with made_in(tmp_path_factory.mktemp("said")) as found:
        train(found.job(*CELL), output=None)
        yield found


def setup(made: Made, *given: str, stage: str = "train") -> Setup:
    return Setup(Configuration(ROOT, given, raw=tree()), made.setup.project, stage)


def said(made: Made, capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Train the cell with other settings; return what it says."""
    capsys.readouterr()
    train(training_job(setup(made, *given), *CELL), output=None)
    return capsys.readouterr().err


def test_a_longer_run_says_why_it_does_not_continue_the_finished_run(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made.job(*CELL).run.digest[:12]
    line = said(made, capsys, "training.epochs=2")
    start = f"masked-additive seed 0: not a continuation of the finished run {first}: training.epochs 1 → 2; training.b"
    assert start in line
    assert "it trains from epoch 1, and reuses the prepared data\n" in line
    assert "training.weight_decay 0.0 → 0.2; it trains" in said(
        made, capsys, "training.epochs=2", "training.weight_decay=0.2"
    )
    assert "not a continuation" not in said(made, capsys, "training.epochs=2"), "it is found finished"
    assert "not a continuation" not in said(made, capsys, "training.threads=2"), "no part of the digest"


@pytest.mark.parametrize("given, line", [
    (("batch_size=100000", "epochs=2"), r"batch_size 100,000 holds all \d+ rows of train: one update per epoch, 2 "),
    (("log_every=5000",), r"training.log_every 5,000: no step is logged, the run has \d+ updates"),
    (("evaluations=500",), r"training.evaluations 500: an epoch has \d+ updates, so as many"),
    (("snapshots.steps=900",), r"training.snapshots.steps 900: only the start is kept, the run has \d+ updates"),
])  # fmt: skip
def test_a_setting_larger_than_the_run_is_named_with_the_numbers(
    made: Made, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], line: str
) -> None:
    settings = dict(one.split("=") for one in (*LONGER, *(f"training.{one}" for one in given)))
    assert re.search(line, said(made, capsys, *(f"{name}={value}" for name, value in settings.items())))
    fitting = said(made, capsys, *LONGER).splitlines()
    assert not [one for one in fitting if "training." in one and "not a continuation" not in one]


def test_an_absent_device_is_refused_also_if_nothing_is_left_to_do(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = setup(made, "training.device=cuda", "extraction.device=cuda")
    work = training_job(asked, *CELL)
    assert work.run.finished
    shared: dict[str, Any] = {"title": "x", "workers": 1, "placement": Placement()}
    line = r"^training.device: 'cuda' is not available .* use -S training.device=cpu$"
    for do in (
        partial(train, work, output=None),
        partial(rehearse, work.job, 1),
        partial(train_cells, asked, [CELL], None, **shared),
    ):
        with pytest.raises(InputError, match=line):
            do()
    for key in ("extraction.device", "measures.device"):
        with pytest.raises(InputError, match=rf"^{key}: 'cuda' is not available .* use -S {key}=cpu$"):
            states_cells(setup(made, f"{key}=cuda", stage="states"), [], **shared)
    text = tmp_path / "text.csv"
    text.write_text("text\n" + "".join(f"a sentence of number {number}\n" for number in range(20)))
    folder = str(next(work.run.output.glob("checkpoints/*")))
    for command in (["geometry", folder], ["spaces", folder, folder], ["translate", folder]):
        given = [*command, "--text", str(text), "--column", "text", "--device", "cuda"]
        with pytest.raises(InputError, match=r"^--device: 'cuda' is not available on this machine; use cpu$"):
            app([*given, "--out", str(tmp_path / command[0])], standalone_mode=False)


@pytest.mark.parametrize("here, chosen", [(True, "cuda"), (False, "cpu")])
def test_auto_takes_a_card_where_there_is_one(monkeypatch: pytest.MonkeyPatch, here: bool, chosen: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: here)
    assert check_device("auto", key="training.device") == chosen


def test_auto_trains_the_same_run_as_the_device_that_it_takes(made: Made) -> None:
    """The device is in the record, and no part of the digest."""
    runs = [training_job(setup(made, *changes), *CELL).run for changes in ((), ("training.device=auto",))]
    assert runs[0].digest == runs[1].digest
    assert runs[1].finished
