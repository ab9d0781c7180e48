"""A real MLflow server on loopback, which can be killed and restarted."""

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from pipeline_project import wait_for


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with MLflow's schema, made once: migrating takes seconds."""
    from isoscope.platform.mirror.mlflow import connect

    root = tmp_path_factory.mktemp("schema")
    connect(None, root).client._tracking_client.store.engine.dispose()
    return root / "mlflow.db"


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class MlflowServer:
    """`mlflow server` in its own process group; it can be stopped and restarted on the same port.

    `prefix`: of its addresses, such as /tracking. `options`: further words. `environment`: further variables.
    """

    def __init__(
        self, folder: Path, *options: str, prefix: str = "", environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}{prefix}"
        self.options = (*options, *(("--static-prefix", prefix) if prefix else ()))
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), *self.options]
        env = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "PYTHONWARNINGS": "ignore",
            **self.environment,
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """Kill it with all its processes."""
        if self.process is not None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[MlflowServer]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copyfile(empty_database, folder / "mlflow.db")
    server = MlflowServer(folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def mlflow_server(running_server: MlflowServer) -> MlflowServer:
    """An MLflow server that answers; a test may stop it."""
    if running_server.process is None:
        running_server.start()
    return running_server
