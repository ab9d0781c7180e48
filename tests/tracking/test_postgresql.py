import subprocess
import sys
import time
from pathlib import Path

import pytest

from isoscope.tracking.mirror import mirror_record
from isoscope.tracking.mlflow import connect
from isoscope.tracking.record import read
from tracked_runs import DIGEST, shown, write_record

pytestmark = pytest.mark.postgresql

CHILD = """
import sys, time
from pathlib import Path
from isoscope.tracking.mirror import connect, mirror_record
from isoscope.tracking.record import read
root, uri, at, path = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), Path(sys.argv[4])
time.sleep(max(0, at - time.time()))
mirror_record(connect(uri, root), read(path))
"""


def test_postgresql_shows_what_sqlite_shows(project: Path, postgresql: str) -> None:
    path = write_record(project)
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(project), postgresql, str(time.time() + 3), str(path)]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [child.communicate(timeout=600)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    direct, large = connect(None, project), connect(postgresql, project)
    mirror_record(direct, read(path))
    expected = shown(direct, "fusion")
    assert len(expected) == 1
    assert shown(large, "fusion") == expected
    sent = mirror_record(large, read(path))
    assert (sent.digest, sent.created, sent.points, sent.tags, sent.models) == (DIGEST, False, 0, 0, 0)
