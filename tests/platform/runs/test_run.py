"""A run's folder, from work to output, and the ending in its record."""

import shutil

import pytest

from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.platform.config.tree import dump_yaml
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.record import read
from isoscope.platform.runs.run import Run, tracked
from own_runs import finish, publish


def work(run: Run, text: str) -> None:
    finish(run, lambda folder: (folder / "metrics.jsonl").write_text(text))


def test_work_becomes_the_output_and_a_damaged_output_is_replaced(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    work(run, "whole")
    assert run.finished
    (run.output / "metrics.jsonl").write_text("broke")
    assert not run.finished
    assert "metrics.jsonl has changed since it was written; the run starts again" in capsys.readouterr().err
    work(Run(run.project, run.identity), "whole")
    assert run.finished


def test_the_record_tells_how_a_run_ended(run: Run) -> None:
    (run.folder / "work").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        work(run, "in the way")
    record = read(run.record.path)
    assert record.status == "FAILED"
    assert (record.end.reason or "").startswith("FileExistsError: ")


def test_a_run_refused_before_it_began_leaves_no_word(run: Run) -> None:
    with pytest.raises(InputError), StopSignal() as stop, tracked(run, stop):
        raise InputError("no such device")
    assert run.record.path.read_bytes() == b""


def test_what_fails_after_the_end_does_not_change_it(run: Run) -> None:
    """A finished run found again, and a command that then fails (a closed pipe, say), leave the run finished."""
    work(run, "whole")
    again = Run(run.project, run.identity)
    assert again.finished
    with pytest.raises(ValueError, match="no number"), StopSignal() as stop, tracked(again, stop):
        int("no number")
    assert read(run.record.path).status == "FINISHED"


def test_a_second_owner_is_told_the_name_people_know(run: Run) -> None:
    with (
        StopSignal() as stop,
        tracked(run, stop),
        pytest.raises(InputError, match=r"^additive seed 0 \(\w{12}\): this"),
    ):
        tracked(Run(run.project, run.identity), stop).__enter__()


@pytest.mark.parametrize("line", [0, 1, 2, 3])
def test_a_finished_run_that_is_found_makes_its_damaged_record_whole(
    run: Run, line: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage in turn its identity, its attempt, a point and its end."""
    point = {"name": "test/loss", "value": 0.5, "step": 3, "epoch": 1}
    finish(run, lambda _: run.record.metric(**point))  # type: ignore[arg-type]
    lines = run.record.path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'": ', b'";', 1)
    run.record.path.write_bytes(b"".join(lines))
    for again in (False, True):
        one = Run(run.project, run.identity)
        with StopSignal() as stop, tracked(one, stop):
            assert one.finished
            one.mend([point], source="metrics.jsonl")
            one.record.finish()
        record = read(one.record.path)
        assert (record.run.digest, record.status) == (run.digest, "FINISHED")
        assert [(found.name, found.value, found.step) for found in record.metrics] == [("test/loss", 0.5, 3)]
        assert capsys.readouterr().err.count("damaged lines: 1") == (not again)


def test_a_damaged_output_is_put_back_from_where_it_was_published(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    work(run, "whole")
    publish(run, run.project.folder / "models" / "additive")
    (run.output / "metrics.jsonl").unlink()  # the published one may be its second name
    (run.output / "metrics.jsonl").write_text("broke")
    assert Run(run.project, run.identity).finished
    assert (run.output / "metrics.jsonl").read_text() == "whole"
    assert "restored from its published copy" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["models/fusion/additive/seed-0", "models/fusion/additive"])
@pytest.mark.parametrize("harm", [None, "a byte", "no dvc.lock"])
def test_a_published_output_without_a_record_counts_where_dvc_lock_vouches_for_it(
    run: Run, harm: str | None, out: str
) -> None:
    """Publish like a stage of one run, or like a stage of an arm with all its seeds."""
    work(run, "whole")
    target = publish(run, run.project.folder / "models/fusion/additive/seed-0")
    shutil.rmtree(run.project.state / ".isoscope")
    md5 = dvc_md5(run.project.folder / out)
    if harm == "a byte":
        (target / "metrics.jsonl").write_text("while")
    if harm != "no dvc.lock":
        lock = {"stages": {"train": {"cmd": "x", "outs": [{"path": out, "md5": md5}]}}}
        (run.project.folder / "dvc.lock").write_text(dump_yaml(lock))
    pulled = Run(run.project, run.identity)
    assert pulled.finished == (harm is None)
    if harm is None:
        assert (pulled.output / "metrics.jsonl").read_text() == "whole"
        assert pulled.finished, "whole by its own manifest, too"
