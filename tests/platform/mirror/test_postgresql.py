import subprocess
import sys
from pathlib import Path

import pytest

from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import Mirror
from isoscope.platform.runs.record import read
from tracked_runs import DIGEST, shown, start_together, write_record

pytestmark = pytest.mark.postgresql

CHILD = """
import sys
from pathlib import Path
from isoscope.platform.mirror.replay import Mirror, connect
from isoscope.platform.runs.record import read
root, uri, path = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
Mirror(connect(uri, root)).send(read(path))
"""


def test_postgresql_shows_what_sqlite_shows(project: Path, postgresql: str) -> None:
    path = write_record(project)
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(project), postgresql, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    children = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
    start_together(children)
    said = [child.communicate(timeout=600)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    direct, large = connect(None, project), connect(postgresql, project)
    Mirror(direct).send(read(path))
    expected = shown(direct, "fusion")
    assert len(expected) == 1
    assert shown(large, "fusion") == expected
    sent = Mirror(large).send(read(path))
    assert (sent.digest, sent.new.total()) == (DIGEST, 0)
