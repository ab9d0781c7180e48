"""A damaged run is no start: it is restored or trained again first, or an error names its file and the cure."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isoscope.base import paths
from isoscope.base.atomic_files import MANIFEST, seal
from isoscope.base.errors import InputError
from isoscope.platform.executor.placement import Placement
from isoscope.platform.runs.locks import HeldError, Lease
from isoscope.platform.runs.provenance import file_md5s
from isoscope.platform.runs.record import read
from isoscope.platform.stages.study_cells import intact, train_starts
from isoscope.platform.stages.train import CellJob, selected, train
from isoscope.training import starts
from start_material import Made, made_in
from struck import KINDS

START, OTHER = ("half_depth", "masked-additive", 1), ("half_depth", "masked-additive", 0)
STARTED = ("aligned", "alignment-identity", 0)
AGAIN = "run: isoscope train half_depth masked-additive --seed 1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Two runs to start from, trained and published; nothing has started from them."""
    with made_in(tmp_path_factory.mktemp("damaged")) as found:
        for study, arm, seed in (START, OTHER, ("dynamics", "translation-additive", 0)):
            train(found.job(study, arm, seed), output=found.setup.project.folder / paths.trained(study, arm, seed))
        yield found


@pytest.fixture
def start(made: Made) -> Iterator[CellJob]:
    """A run to start from; its files are put back."""
    found = made.job(*START)
    kept = found.run.folder.with_name("kept")
    shutil.copytree(found.run.output, kept)
    yield found
    shutil.rmtree(found.run.output, ignore_errors=True)
    kept.rename(found.run.output)


def files_of(start: CellJob) -> dict[str, str]:
    """The md5 of each file; restored outputs lack the manifests of checkpoints and snapshots, which nothing reads."""
    return file_md5s(start.run.output, leave_out={MANIFEST})


def prepare_starts(made: Made) -> None:
    train_starts(made.setup, [STARTED], title="starts", workers=1, placement=Placement())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_damage_to_every_file_is_named_and_restored(made: Made, start: CellJob, kind: str) -> None:
    whole = files_of(start)
    assert {Path(name).name for name in whole} >= {
        "config.json",
        "model.safetensors",
        "metrics.jsonl",
        "tokenizer.json",
    }
    for name in (*whole, MANIFEST):
        KINDS[kind](start.run.output / name)
        with pytest.raises(InputError, match=rf"^\S+/output: .+, so nothing can start from it; {AGAIN}$"):
            selected(start)
        prepare_starts(made)
        assert files_of(start) == whole, name


def test_an_intact_start_is_looked_at_while_others_do(made: Made, start: CellJob) -> None:
    """As by an array of jobs that start from one run."""
    with Lease(start.run.folder):
        assert intact(start.run)
        KINDS["flipped"](start.run.output / "metrics.jsonl")
        with pytest.raises(HeldError):
            intact(start.run)


def test_a_file_that_the_run_did_not_write_is_named(start: CellJob) -> None:
    checkpoint = selected(start)
    (checkpoint / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"output: \S+/adapter_config.json is not of this run, so nothing can start"):
        selected(start)


def test_a_sealed_output_of_another_run_is_not_taken_for_it(made: Made, start: CellJob) -> None:
    whole = files_of(start)
    shutil.rmtree(start.run.output)
    shutil.copytree(made.job(*OTHER).run.output, start.run.output)
    with pytest.raises(InputError, match=rf"it is the output of run {made.job(*OTHER).run.digest[:12]}, so nothing"):
        selected(start)
    prepare_starts(made)
    assert files_of(start) == whole


def test_an_output_sealed_by_an_earlier_version_counts(start: CellJob) -> None:
    seal(start.run.output)  # does not say whose output it is
    assert selected(start).is_dir()


def test_without_a_copy_it_is_trained_again_to_the_bit(made: Made, start: CellJob) -> None:
    whole = files_of(start)
    published = made.setup.project.folder / paths.trained(*START)
    for folder in (start.run.output, published):
        KINDS["flipped"](next(folder.glob("checkpoints/*/model.safetensors")))
    prepare_starts(made)
    assert files_of(start) == whole


def test_runs_removed_with_their_records_left_are_trained_again(made: Made) -> None:
    """As after `rm -rf models/{aligned,half_depth}` and their runs: the records still say FINISHED."""
    whole = file_md5s(made.trained(*STARTED), leave_out={MANIFEST})
    for cell in (START, STARTED):
        shutil.rmtree(made.job(*cell).run.folder)
        shutil.rmtree(made.setup.project.folder / paths.trained(*cell), ignore_errors=True)
    assert file_md5s(made.trained(*STARTED), leave_out={MANIFEST}) == whole


def test_a_start_damaged_while_it_is_read_fails_the_run(
    made: Made, start: CellJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, join = made.job(*STARTED), starts.join
    shutil.rmtree(work.run.folder, ignore_errors=True)

    def struck(*given: Any) -> None:
        KINDS["flipped"](next(start.run.output.glob("checkpoints/*/model.safetensors")))
        join(*given)

    monkeypatch.setattr(starts, "join", struck)
    with pytest.raises(InputError, match=rf"safetensors has changed since it was written, so nothing .*{AGAIN}"):
        made.trained(*STARTED)
    assert not work.run.output.exists()
    record = read(work.run.project.records / f"{work.run.digest}.jsonl")
    assert record.status == "FAILED"
