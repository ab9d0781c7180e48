import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.runs.lines import RunRecord, summed
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record, Tail, read
from tracked_runs import DIGEST, ENVIRONMENT, RUN, lines, log_epochs, start, write_record


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    git = Git("1" * 40, "diff --git a/params.yaml b/params.yaml\n")
    record = read(write_record(tmp_path, epochs=2, git=git))
    alone = {"parent": None, "tags": {}}
    assert record.run._replace(t=0)._asdict() == {"t": 0, "digest": DIGEST, **RUN, **alone}
    [attempt] = record.attempts
    assert attempt.pid == os.getpid()
    assert attempt.environment == ENVIRONMENT
    assert attempt.git == {"commit": "1" * 40, "dirty": True, "diff_sha256": git.diff_sha256, "scrubbed": False}
    assert [(p.name, p.step, p.epoch) for p in record.metrics[4:8]] == [
        ("train/loss", 5, None),
        ("validation/loss", 5, 1),
        ("validation/accuracy", 5, 1),
        ("train/loss", 6, None),
    ]
    assert [point.value for point in record.metrics if point.name == "train/loss"] == [1 / s for s in range(1, 11)]
    assert [item.context for item in record.datasets] == ["training", "validation"]
    assert [item.epoch for item in record.checkpoints] == [1, 2]
    assert [Path(item.path).name for item in record.artifacts] == [f"{git.diff_sha256}.patch", "config.yaml"]
    assert Path(record.artifacts[0].path).read_text() == git.diff
    assert (record.end.status, record.status, record.damaged) == ("FINISHED", "FINISHED", 0)
    times = [line["t"] for line in lines(record.path or Path())]
    assert times == sorted(times)


def test_a_pair_of_metric_and_step_stands_once_however_often_it_is_logged(tmp_path: Path) -> None:
    path = write_record(tmp_path, epochs=1)
    with start(tmp_path) as record:
        record.metric("train/loss", 9.0, step=5)
        record.metric("train/loss", 0.1, step=6)
        record.metric("train/loss", 9.0, step=6)
        log_epochs(record, range(1, 3))
    points = [(point.name, point.step) for point in read(path).metrics]
    assert len(points) == len(set(points)) == 5 + 2 + 5 + 2
    assert {p.value for p in read(path).metrics} & {9.0} == set()
    assert len([line for line in lines(path) if line["kind"] == "run"]) == 1


def test_cut_at_any_byte_a_record_is_read_up_to_there_and_continued(tmp_path: Path) -> None:
    whole = write_record(tmp_path, epochs=1).read_bytes()
    path = tmp_path / "cut.jsonl"
    for length in range(len(whole) - 240, len(whole)):
        path.write_bytes(whole[:length])
        complete = whole[:length].count(b"\n") + (whole[length : length + 1] == b"\n")
        torn = not whole[:length].endswith(b"\n") and whole[length : length + 1] != b"\n"
        before = read(path)
        assert _count(before) == complete
        assert before.damaged == torn
        with Record(path) as record:
            record.metric("after", 1.0, step=0)
        after = read(path)
        assert _count(after) == complete + 1
        assert after.metrics[-1].name == "after"
        assert after.damaged == torn


def _count(record: RunRecord) -> int:
    lists = (record.attempts, record.metrics, record.datasets, record.checkpoints, record.artifacts)
    return sum(map(len, lists)) + (record.run is not None) + (record.end is not None)


def test_nothing_logged_is_lost_to_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    code = (
        "import sys; from pathlib import Path; from isoscope.platform.runs.record import Record\n"
        "record = Record(Path(sys.argv[1]))\n"
        "for step in range(10**9):\n"
        "    record.metric('train/loss', 0.5, step=step)\n"
        "    sys.stdout.write(f'{step}\\n'); sys.stdout.flush()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as child:
        for _ in range(300):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        said = 300 + child.stdout.read().count(b"\n")
    record = read(path)
    assert [point.step for point in record.metrics[:said]] == list(range(said))
    assert said <= len(record.metrics) <= said + 1


def test_metrics_wait_in_memory_while_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    code = (
        "import resource, signal, sys; from pathlib import Path; from isoscope.platform.runs.record import Record\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "record = Record(Path(sys.argv[1]))\n"
        "record.metric('loss', 0.0, step=0)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (250, resource.RLIM_INFINITY))\n"
        "for step in range(1, 9): record.metric('loss', 0.0, step=step)\n"
        "try: record.end('FINISHED')\n"
        "except OSError: print('refused')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "record.metric('loss', 9.9, step=8)\n"
        "record.metric('loss', 0.0, step=9)\n"
        "record.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert done.stderr.count("are kept in memory") == 1
    record = read(path)
    assert [(point.step, point.value) for point in record.metrics] == [(step, 0.0) for step in range(10)]
    assert (record.status, record.damaged) == ("FINISHED", 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5e-324, 0.1 + 0.2])
def test_every_double_comes_back_as_it_was_in_strict_json(tmp_path: Path, value: float) -> None:
    with start(tmp_path, params={"odd": value}) as record:
        record.metric("odd", value, step=0)
    assert lines(record.path)[-1]["name"] == "odd"
    assert repr(read(record.path).metrics[0].value) == repr(value)


@pytest.mark.parametrize(
    "story, status",
    [
        ("a", "RUNNING"),
        ("aK", "KILLED"),
        ("aKa", "RUNNING"),
        ("aKaF", "FAILED"),
        ("aFaD", "FINISHED"),
        ("aDa", "FINISHED"),  # published again: what is finished stays so
        ("aDaK", "KILLED"),  # the last end counts
    ],
)
def test_status_follows_the_attempts_and_their_ends(tmp_path: Path, story: str, status: str) -> None:
    with Record(tmp_path / "record.jsonl") as record:
        record.run(digest=DIGEST, **RUN)
        for letter in story:
            if letter == "a":
                record.attempt(git=Git(str(len(story))), environment={})
            else:
                record.end({"K": "KILLED", "F": "FAILED", "D": "FINISHED"}[letter])
    assert read(record.path).status == status


def test_a_tail_takes_in_each_line_once_and_leaves_the_unfinished_one(tmp_path: Path) -> None:
    whole = write_record(tmp_path, epochs=1).read_bytes()
    path = tmp_path / "growing.jsonl"
    path.touch()
    tail = Tail(path)
    assert not tail.poll()
    with path.open("ab", buffering=0) as file:
        for start_at in range(0, len(whole), 37):
            file.write(whole[start_at : start_at + 37])
            tail.poll()
    assert not tail.poll()
    assert (tail.offset, tail.lines) == (len(whole), whole.count(b"\n"))
    assert tail.record == read(path)


def test_garbage_is_counted_and_lines_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    path = write_record(tmp_path, epochs=1)
    good = _count(read(path))
    later = [
        summed('{"kind": "dream", "t": 1}'),
        summed('{"kind": "metric", "t": 1, "name": "new", "value": 1, "step": 0, "of": 2}'),
    ]
    garbage = [b"\0" * 40, b"\xff\xfe", b"[1, 2]", b'{"kind": "metric"}', b"{}", b'{"kind": "metric", "t": 1, "name"']
    path.write_bytes(b"\n".join([*path.read_bytes().splitlines(), *garbage, *later, b""]))
    record = read(path)
    assert (_count(record), record.damaged) == (good + 1, len(garbage))
    assert record.metrics[-1].name == "new"


def test_another_runs_record_and_bad_names_are_refused(tmp_path: Path) -> None:
    with start(tmp_path) as record, pytest.raises(InputError, match="record of run 5e5e5e5e5e5e, not of abcdef"):
        Record(record.path).run(digest="abcdef", stage="train")
    for name in ("../config.yaml", "/etc/passwd", "a//b", "."):
        with pytest.raises(InputError, match="artifact name"):
            record.artifact(tmp_path / "x", name=name)


def test_the_record_needs_no_heavy_library() -> None:
    code = "import sys, isoscope.platform.runs.record; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "isoscope" in loaded
    assert not loaded & {"torch", "transformers", "mlflow", "pandas", "numpy", "pydantic", "sqlalchemy", "dvc"}
