"""MLflow's database on a full or read-only disk: no exception, and nothing is missing afterwards."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from disks import Disk, disk
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import mirror
from tracked_runs import DIGEST, Following, lines, log_epochs, replayed, shown, start, wait_for


@pytest.fixture
def small(tmp_path: Path, empty_database: Path) -> Iterator[tuple[Disk, Path]]:
    """A disk with a project; its records are elsewhere, as on a machine with a separate disk for the database."""
    with disk(tmp_path / "disk", "16m") as one:
        root = one.folder / "project"
        root.mkdir()
        shutil.copyfile(empty_database, root / "mlflow.db")
        records = tmp_path / "records"
        records.mkdir()
        (root / ".isoscope").mkdir()
        (root / ".isoscope" / "records").symlink_to(records)
        yield one, root


@pytest.mark.parametrize("how", ["full", pytest.param("read-only", marks=pytest.mark.exhaustive)])
def test_the_record_goes_on_and_is_sent_when_there_is_room(
    small: tuple[Disk, Path], tmp_path: Path, empty_database: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, root = small
    trouble = one.filled(leave=0) if how == "full" else one.read_only()
    with trouble:
        following = Following(root)
        with start(root) as record:
            log_epochs(record, range(1, 100))
            said: list[str] = []
            wait_for(
                lambda: (
                    said.append(capsys.readouterr().err)
                    or "the run continues and its record keeps everything" in "".join(said)
                )
            )
            [sent] = mirror(root)
            record.end("FINISHED")
        unsent = following.end()
    assert sent.error is not None
    assert "\n" not in sent.error
    assert unsent == {DIGEST: len(lines(record.path))}, "nothing was sent, and all of it stands"
    assert "Traceback" not in "".join(said)
    # There is room again: one mirroring later MLflow holds what it would have held.
    [sent] = mirror(root)
    assert sent.error is None
    undisturbed = replayed(record.path, tmp_path / "good", empty_database)
    assert shown(connect(None, root), "fusion") == undisturbed != []
