"""A confined process: what the kernel refuses it. Each attempt also runs without confinement, where it must succeed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from isoscope.base import confined

ATTEMPTS = """
import ctypes, json, os, signal, socket, subprocess, sys, threading
from pathlib import Path
from isoscope.base.confined import confine

inside, outside, port = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
if sys.argv[4] == "confined":
    confine(inside)
(inside / "mine").write_text("mine")

def forked():
    if pid := os.fork():
        if os.waitpid(pid, 0)[1]:
            raise PermissionError
    else:
        try:
            (outside / "forked").write_text("x")
        except PermissionError:
            os._exit(1)
        os._exit(0)

def queued():
    libc = ctypes.CDLL(None, use_errno=True)
    information = ctypes.create_string_buffer(128)
    ctypes.c_int.from_buffer(information, 8).value = -1  # SI_QUEUE
    number = 129 if os.uname().machine == "x86_64" else 138
    if libc.syscall(number, os.getppid(), signal.SIGCONT, information):
        raise OSError(ctypes.get_errno(), "rt_sigqueueinfo")

def threaded():
    found = []
    def work():
        try:
            (outside / "threaded").write_text("x")
        except PermissionError as error:
            found.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if found:
        raise found[0]

attempts = {
    "connect": lambda: socket.create_connection(("127.0.0.1", port)).close(),
    "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "write": lambda: (outside / "new").write_text("x"),
    "append": lambda: (outside / "old").open("a").write("x"),
    "shorten": lambda: os.truncate(outside / "old", 1),
    "empty": lambda: os.open(outside / "old", os.O_RDONLY | os.O_TRUNC),
    "empty without access": lambda: os.open(outside / "old", os.O_TRUNC | os.O_ACCMODE),
    "queued signal": queued,
    "chmod": lambda: os.chmod(outside / "old", 0o600),
    "utime": lambda: os.utime(outside / "old", (1, 1)),
    "rename": lambda: os.rename(inside / "mine", outside / "mine"),
    "link": lambda: os.symlink("/", outside / "link"),
    "folder": lambda: os.mkdir(outside / "folder"),
    "signal": lambda: os.kill(os.getppid(), 0),
    "program": lambda: subprocess.run(["true"], check=True),
    "forked": forked,
    "threaded": threaded,
    "remove": lambda: os.unlink(outside / "old"),
}
refused = []
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        refused.append(name)
Path(inside / "found.json").write_text(json.dumps([refused, [*attempts], Path("/etc/hostname").exists()]))
"""
supported = pytest.mark.skipif(sys.platform != "linux", reason="the kernel confines on Linux only")


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def attempted(tmp_path: Path, port: int, how: str) -> tuple[list[str], list[str]]:
    """Return which attempts were refused, and all attempts."""
    inside, outside = tmp_path / how, tmp_path / f"outside {how}"
    inside.mkdir()
    outside.mkdir()
    (outside / "old").write_text("precious")
    command = (sys.executable, "-P", "-c", ATTEMPTS, str(inside), str(outside), str(port), how)
    subprocess.run(command, check=True, cwd=tmp_path)
    refused, every, reads = json.loads((inside / "found.json").read_text())
    assert reads
    assert how == "free" or os.listdir(outside) == ["old"]  # noqa: PTH208
    assert how == "free" or (outside / "old").read_text() == "precious"
    return refused, every


@supported
def test_a_confined_process_reaches_and_changes_nothing_outside(tmp_path: Path, port: int) -> None:
    refused, every = attempted(tmp_path, port, "confined")
    assert refused == every


@supported
def test_the_attempts_succeed_without_confinement(tmp_path: Path, port: int) -> None:
    """The negative control."""
    assert attempted(tmp_path, port, "free")[0] == []


@supported
def test_a_process_with_threads_is_not_confined(tmp_path: Path) -> None:
    code = (
        "import sys, threading; from pathlib import Path; from isoscope.base.confined import confine\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "try: confine(Path(sys.argv[1]))\n"
        "except OSError as error: print(error)\n"
    )
    done = subprocess.run((sys.executable, "-P", "-c", code, str(tmp_path)), capture_output=True, text=True, check=True)
    assert "several threads" in done.stdout


def test_another_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined.platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match=r"cannot be confined on linux riscv64; it can on Linux"):
        confined.confine(tmp_path)
