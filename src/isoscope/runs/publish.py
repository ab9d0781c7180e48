"""Publish a run's output to the pipeline's folder, atomically, by link or copy."""

import fcntl
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from isoscope.sealing import replacing

_FICLONE = 0x40049409  # Linux ioctl: share a file's blocks, copy on write


def publish(source: Path, output: Path, *, extra: Mapping[str, str], leave_out: Collection[str]) -> None:
    """Make `output` a copy of the folder `source`, by reflink, hard link or bytes, whichever works first.

    The copy is built beside `output` and renamed into place, so `output` is either the complete old or the complete
    new folder. DVC may turn the files into read-only links to its cache; they are never written again. `extra`:
    additional text files (name → text). `leave_out`: file names to skip.
    """
    with replacing(output, "publish") as fresh:
        copy(source, fresh, leave_out=leave_out)
        for name, text in extra.items():
            (fresh / name).write_text(text, "utf-8")


def copy(source: Path, target: Path, *, leave_out: Collection[str]) -> None:
    """Link or copy every file below `source` to `target`, except file names in `leave_out`."""
    for folder, _, files in os.walk(source):
        place = target / Path(folder).relative_to(source)
        place.mkdir(exist_ok=True)
        for name in set(files) - set(leave_out):
            duplicate(Path(folder) / name, place / name)


def duplicate(source: Path, target: Path) -> None:
    """Link or copy a file, as cheaply as the file system allows."""
    if not _reflink(source, target):
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


def _reflink(source: Path, target: Path) -> bool:
    try:
        with source.open("rb") as reader, target.open("xb") as writer:
            fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
