"""A database's schema is complete or absent."""

import subprocess
import sys
from pathlib import Path

from isoscope.platform.mirror.mlflow import connect
from tracked_runs import wait_for

MAKE = "from pathlib import Path; from isoscope.platform.mirror.mlflow import connect; connect(None, Path({!r}))"


def test_a_kill_while_the_schema_is_made_leaves_no_half_database(tmp_path: Path) -> None:
    making = tmp_path / "mlflow.db.making"
    process = subprocess.Popen([sys.executable, "-c", MAKE.format(str(tmp_path))])
    wait_for(lambda: making.exists() and making.stat().st_size > 0)
    process.kill()
    process.wait()
    assert not (tmp_path / "mlflow.db").exists()
    server = connect(None, tmp_path)
    assert [experiment.name for experiment in server.client.search_experiments()] == ["Default"]
    assert not list(tmp_path.glob("mlflow.db.*"))
    server.client._tracking_client.store.engine.dispose()
