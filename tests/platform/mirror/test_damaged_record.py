"""A damaged record: checksums find the damage, the run's points restore it, and a message says so."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from isoscope.base.atomic_files import seal
from isoscope.base.paths import Project
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import mirror
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.locks import Lease
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.record import Record, read
from isoscope.platform.runs.upkeep import mended
from isoscope.platform.stages.mirror import mirror_all
from tracked_runs import DIGEST, shown, start, write_record

FLIPS = 400


def points(record: RunRecord) -> list[tuple[str, float, int, int | None]]:
    return [(point.name, point.value, point.step, point.epoch) for point in record.metrics]


def flipped(data: bytes, bit: int) -> bytes:
    turned = bytearray(data)
    turned[bit // 8] ^= 1 << bit % 8
    return bytes(turned)


def own(record: RunRecord) -> list[dict[str, object]]:
    """The run's points as its metrics.jsonl holds them."""
    return [dict(zip(("name", "value", "step", "epoch"), point, strict=True)) for point in points(record)]


def test_a_bit_turned_over_anywhere_changes_nothing_that_is_read(tmp_path: Path) -> None:
    path = write_record(tmp_path, epochs=2)
    data, whole = path.read_bytes(), read(path)
    for bit in random.Random(0).sample(range(8 * len(data)), FLIPS):
        path.write_bytes(flipped(data, bit))
        found = read(path)
        assert set(points(found)) <= set(points(whole)), f"bit {bit}"
        lost = len(points(whole)) - len(points(found))
        joined = data[bit // 8] == ord("\n")  # two lines have become one damaged line
        assert lost <= (2 if joined else 1), f"bit {bit}"
        assert (lost > 0) <= found.damaged <= (1 if joined else 2), f"bit {bit}: a line, or one that has become two"
        assert found.damaged or found == whole or found.__dict__ | {"_summed": True} == whole.__dict__


def spoil(path: Path) -> None:
    """A digit of a step turned over: to the eye a good line, of a point that never was."""
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"step": 3' in line)
    lines[at] = lines[at].replace(b'"step": 3', b'"step": 7')
    path.write_bytes(b"".join(lines))


def without_points(path: Path) -> None:
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(keepends=True) if b'"metric"' not in line))


@pytest.mark.parametrize("harm, damaged", [(spoil, 1), (without_points, 0)])
def test_what_is_lost_is_taken_from_the_runs_own_points_once_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: Callable[[Path], None], damaged: int
) -> None:
    path = write_record(tmp_path, epochs=2)
    whole = read(path)
    harm(path)
    lost = len(whole.metrics) - len(read(path).metrics)
    for again in (False, True):
        with Record(path) as record:
            record.mend(own(whole), source="metrics.jsonl")
        said = f"warning: {path}: damaged lines: {damaged}; points restored from metrics.jsonl: {lost}\n"
        assert capsys.readouterr().err == ("" if again else said)
    assert sorted(points(read(path))) == sorted(points(whole))
    assert read(path).status == "FINISHED"


def test_a_record_of_an_earlier_version_is_read_and_gone_on_with(tmp_path: Path) -> None:
    """Old lines have no checksum; added lines have one, and after them a line without a checksum does not count."""
    path = write_record(tmp_path, epochs=2)
    whole = read(path)
    old = [{k: v for k, v in json.loads(line).items() if k != "sum"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert (points(read(path)), read(path).damaged) == (points(whole), 0)
    with start(tmp_path) as record:
        record.metric("new", 1.0, step=0)
    assert (len(read(path).metrics), read(path).damaged) == (len(whole.metrics) + 1, 0)
    with path.open("a") as file:
        file.write(json.dumps(old[3]) + "\n")
    assert (len(read(path).metrics), read(path).damaged) == (len(whole.metrics) + 1, 1)


def test_a_mirror_mends_a_finished_runs_record_and_mlflow_gets_every_point_once(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_record(project, epochs=2)
    whole = read(path)
    store(project, own(whole))
    data = path.read_bytes().splitlines(keepends=True)
    spoil(path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]) + data[-1].replace(b"FIN", b"fin"))
    assert (read(path).status, read(path).damaged) == ("RUNNING", 2)
    for _ in range(2):
        record = mended(Project(project, project), DIGEST)
        assert sorted(points(record)) == sorted(points(whole))
        assert record.status == "FINISHED"
    assert capsys.readouterr().err.count("damaged lines: 2; points restored from metrics.jsonl: 1") == 1
    [sent] = mirror(project, records=[record])
    assert (sent.error, sent.new["metrics"]) == (None, len(whole.metrics))
    [run] = shown(connect(None, project), "fusion")
    assert sum(map(len, run["metrics"].values())) == len(whole.metrics)


def store(project: Path, points: list[dict[str, object]]) -> None:
    """The run's stored output, sealed."""
    seal(written(project / ".isoscope/runs" / DIGEST / "output", points))


def written(output: Path, points: list[dict[str, object]]) -> Path:
    output.mkdir(parents=True)
    (output / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    return output


def published(project: Path, points: list[dict[str, object]]) -> Path:
    """The run's output in the pipeline's place without the stored output, and DVC's lock with its hash."""
    output = written(project / "models/fusion/additive/seed-0", points)
    (output / "config.yaml").write_text(f"digest: {DIGEST}\n")
    (project / "dvc.lock").write_text(
        f"stages:\n  train:\n    outs:\n    - path: models/fusion/additive/seed-0\n      md5: {dvc_md5(output)}\n"
    )
    return output


def test_points_of_a_published_output_are_taken_only_where_every_byte_is_vouched_for(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise damage in the output would get a valid checksum in the record."""
    path = write_record(project, epochs=2)
    whole = read(path)
    output = published(project, own(whole))
    spoil(path)
    damaged = b"".join(path.read_bytes().splitlines(keepends=True)[:-1])  # and how it ended is lost
    sound = (output / "metrics.jsonl").read_text()
    for harm in (sound.replace('"value": 0.', '"value": 9.'), sound[: len(sound) // 2]):
        assert harm != sound
        (output / "metrics.jsonl").write_text(harm)
        path.write_bytes(damaged)
        record = mended(Project(project, project), DIGEST)
        assert len(record.metrics) == len(whole.metrics) - 1
        assert capsys.readouterr().err.endswith("damaged lines: 1; there is no copy of their contents\n")
        mended(Project(project, project), DIGEST)
        assert capsys.readouterr().err == "", "said once"
    (output / "metrics.jsonl").write_text(sound)
    path.write_bytes(damaged)
    assert sorted(points(mended(Project(project, project), DIGEST))) == sorted(points(whole))


@pytest.mark.parametrize("lines", [3, 6, -1])
def test_a_record_cut_at_a_lines_end_is_made_whole(
    project: Path, capsys: pytest.CaptureFixture[str], lines: int
) -> None:
    """No checksum is wrong there: only the output knows that the run has finished, and with which points."""
    path = write_record(project, epochs=2)
    whole = read(path)
    store(project, own(whole))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    assert (read(path).status, read(path).damaged) == ("RUNNING", 0)
    record = mended(Project(project, project), DIGEST)
    assert (record.status, sorted(points(record))) == ("FINISHED", sorted(points(whole)))
    capsys.readouterr()
    with Lease(project / ".isoscope/runs" / DIGEST, note=False):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
        assert mended(Project(project, project), DIGEST).status == "RUNNING", "a run under way is its owner's"


def test_an_emptied_record_of_a_stored_run_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_record(project, epochs=1)
    path.write_bytes(b"")
    (project / ".isoscope/runs" / DIGEST / "output").mkdir(parents=True)
    mirror_all(Project(project, project), None)
    assert f"{path}: its line about the run is lost" in capsys.readouterr().err


def test_what_only_a_lost_line_said_stays_in_mlflow(project: Path) -> None:
    path = write_record(project, epochs=1)
    mirror(project)
    server = connect(None, project)
    [before] = shown(server, "fusion")
    path.write_bytes(path.read_bytes().replace(b'"torch": "2.13.0"', b'"torch": "2.03.0"'))
    assert read(path).attempts == []
    mirror(project)
    [after] = shown(server, "fusion")
    assert after["tags"] == before["tags"]
    assert before["tags"]["isoscope.env.torch"] == "2.13.0"
