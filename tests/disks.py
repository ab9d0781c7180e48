"""A disk for a test: a tmpfs of a given size, which can be enlarged or made read-only."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Disk:
    """A mounted tmpfs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, options: str) -> None:
        """Mount it, or change how it is mounted."""
        remount = "remount," if self.folder.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{remount}{options}", "tmpfs", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)

    @property
    def free(self) -> int:
        """Bytes that are left."""
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_frsize

    @contextlib.contextmanager
    def filled(self, leave: int) -> Iterator[None]:
        """Fill the disk except for `leave` bytes, for the duration of the context."""
        hog = self.folder / "hog"
        with hog.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free - leave)
        try:
            yield
        finally:
            hog.unlink()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Make the disk read-only for the duration of the context; no file may be open for writing."""
        self.mount("ro")
        try:
            yield
        finally:
            self.mount("rw")


@contextlib.contextmanager
def disk(folder: Path, size: str) -> Iterator[Disk]:
    """A tmpfs of `size` on `folder`; skips where this user may not mount."""
    folder.mkdir()
    one = Disk(folder)
    try:
        one.mount(f"size={size}")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting takes root")
    try:
        yield one
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
