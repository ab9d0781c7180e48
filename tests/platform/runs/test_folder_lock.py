"""One command writes a folder: a second one is refused with the first's process; a killed one leaves it free."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.runs.folder_lock import writing
from isoscope.platform.stages import export, translate
from isoscope.platform.stages.page_folder import GEOMETRY, SPACES, page_folder

HOLD = """\
import sys, time
from pathlib import Path
from isoscope.platform.runs.folder_lock import writing
with writing(Path(sys.argv[1]), called="it"):
    Path(sys.argv[1], "file").touch()
    print("held", flush=True)
    time.sleep(600)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that writes the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_is_refused_with_the_first_and_a_kill_frees_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    with holder(folder) as first:
        with pytest.raises(InputError, match=f"^--out page: process {first.pid} is writing there; wait for it"):
            writing(folder, called="--out page").__enter__()
        first.send_signal(signal.SIGKILL)
    with writing(folder, called="--out page"):
        assert (folder / "file").exists()


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF])
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def refused(*_: Any) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(InputError, match=rf"^{tmp_path}/page: its file system has no locks .*; use a local disk"):
        writing(tmp_path / "page", called="it").__enter__()
    assert not (tmp_path / "page").exists()


PAGES = {"geometry": GEOMETRY, "spaces": SPACES, "translate": translate.PAGE}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_another_command_has_made_meanwhile_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / "manifest.json").write_text('{"made_by": "isoscope other"}', "utf-8")
    (tmp_path / "index.html").touch()
    with pytest.raises(InputError, match="contains other files"), page_folder(tmp_path, PAGES[name]):
        raise AssertionError("it was free")


def test_exporting_to_a_folder_that_is_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "read_model", lambda folder: None)
    out = tmp_path / "given"
    with writing(out, called="it"), pytest.raises(InputError, match=f"^OUT {out}: process {os.getpid()} is writing"):
        export.export(tmp_path, out, form=None)
