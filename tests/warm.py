"""Run commands in processes forked from a process with the libraries loaded, to save seconds of imports.

`binaries()` is a folder with executables that hand their words, folder, environment and open files to a server; what
it forks imports isoscope from the caller's PYTHONPATH and runs the command in a process of its own. What is about
starting, signals or who is whose parent uses the real executables.
"""

import ast
import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
FOLDER = "ISOSCOPE_TEST_FOLDER"
COMMANDS = {
    "accelerate": "accelerate.commands.accelerate_cli",
    "dvc": "dvc.cli",
    "isoscope": "isoscope.platform.cli",
}
# What the libraries themselves import late, on first use.
LATE = (
    "accelerate.commands.accelerate_cli",
    "alembic.command",
    "dvc.cli.parser",
    "dvc.repo.experiments.executor.local",
    "dvc.repo.reproduce",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "mlflow.store.db.utils",
    "mlflow.store.tracking.sqlalchemy_store",
    "networkx",
    "sqlalchemy.dialects.sqlite",
    "torch.distributed.run",
)


@cache
def binaries() -> Path:
    """The folder of the executables; the first call of all processes of this test run starts the server."""
    from filelock import FileLock

    folder = Path(os.environ[FOLDER])
    with FileLock(folder / "warm.lock"):
        return folder / "bin" if (folder / "bin").exists() else start(folder)


def start(folder: Path, *prefix: str, **environment: str) -> Path:
    """Start a server by the command `prefix`, for as long as this test run; return the folder of its executables."""
    made, address, log = (folder / name for name in ("bin", "socket", "warm.log"))
    controller = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    command = [*prefix, sys.executable, __file__, str(address), str(made / "python"), str(controller)]
    streams: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with log.open("wb") as said:
        done = subprocess.run(command, env={**os.environ, **environment}, stdout=said, check=False, **streams)
    assert done.returncode == 0, log.read_text()
    _write(folder / "bin.new", address)
    return (folder / "bin.new").rename(made)


def _write(folder: Path, address: Path) -> None:
    folder.mkdir()
    client = Path(__file__).with_name("warm_client.py")
    for name in ("python", *COMMANDS):
        command = f'exec "{sys.executable}" -IS "{client}" "{address}" "{sys.executable}" {name} "$@"'
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)


def libraries() -> Iterator[tuple[str, str | None]]:
    """Each module of another's, and each name of it, that a file of isoscope imports, early or late."""
    own = {"isoscope", *sys.stdlib_module_names, "ray"}  # of an extra: only --cluster asks for it
    for path in sorted((ROOT / "src").glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((one.name, None) for one in node.names if one.name.split(".")[0] not in own)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in own:
                yield from ((node.module, one.name) for one in node.names)
    yield from ((name, None) for name in LATE)


def serve(address: str, python: str, controller: int) -> None:
    """Import everything, return, and in the background fork a process for each request while `controller` lives."""
    for module, name in dict.fromkeys(libraries()):
        found = importlib.import_module(module)
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    assert threading.active_count() == 1, "a fork would lose the others"
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    if os.fork():
        os._exit(0)
    os.setsid()
    while _lives(controller):
        if not select.select([listener], [], [], 1.0)[0]:
            continue
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection, python)
        connection.close()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _answer(connection: socket.socket, python: str) -> NoReturn:
    """Run one command in a separate process and return its end; kill it if no caller waits any longer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, files, _, _ = socket.recv_fds(connection, 8, 3)
    (size,) = struct.unpack("Q", header)
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run(json.loads(data), files, python)
    for descriptor in (0, 1, 2, *files):
        os.close(descriptor)
    child = os.pidfd_open(pid)
    ready, _, _ = select.select([child, connection], [], [])
    if child not in ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if child in ready:
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(request: dict[str, Any], files: list[int], python: str) -> NoReturn:
    """Be the command: its files, folder, environment, path and words."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # not as the tests were started, with nohup or in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    name = request["name"]
    sys.argv = [str(Path(python).with_name(name)), *request["words"]]
    sys.executable = python
    sys.path[:1] = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    code: Any = 0
    try:
        if name == "python":  # a script
            sys.argv = request["words"]
            sys.path.insert(0, str(Path(sys.argv[0]).parent))
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            code = importlib.import_module(COMMANDS[name]).main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
