"""A stored output that is gone, put back from where it was published or from DVC's cache."""

import json
from collections.abc import Mapping
from pathlib import Path

from isoscope.links import dvc_cache
from isoscope.paths import Project
from isoscope.sealing import replacing, seal
from isoscope.tracking.lines import FINISHED, End
from isoscope.tracking.provenance import dvc_md5, file_md5
from isoscope.tracking.publish import duplicate
from isoscope.tracking.record import read
from isoscope.tracking.restored import CONFIG


def finished(project: Project, digest: str) -> End | None:
    """How a run has finished, by its record; None where it has not."""
    file = project.records / f"{digest}.jsonl"
    end = read(file).end if file.is_file() else None
    return end if end is not None and end.status == FINISHED else None


def take_back(project: Project, digest: str) -> bool:
    """Put a finished run's stored output back, byte for byte; the caller owns the run. False where nobody has it.

    `isoscope gc` removes a stored output that DVC holds: the pipeline's place may still have it, or DVC's cache.
    """
    end = finished(project, digest)
    if end is None or end.output is None or end.output_md5 is None:
        return False
    published = project.folder / end.output
    if published.is_dir() and dvc_md5(published) == end.output_md5:
        files = {path.relative_to(published).as_posix(): path for path in published.rglob("*") if path.is_file()}
    else:
        files = cached(dvc_cache(project), end.output_md5) or {}
        if any(file_md5(path) != path.parent.name + path.name for path in files.values()):
            return False
    if not files:
        return False
    _store(files, project.runs / digest / "output")
    return True


def cached(cache: Path, md5: str) -> dict[str, Path] | None:
    """The files of a folder that DVC's cache holds whole, by their path below it; None where one is lacking."""
    try:
        listing = json.loads(_object(cache, md5).read_text("utf-8"))
        files = {str(entry["relpath"]): _object(cache, str(entry["md5"])) for entry in listing}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return files if all(path.is_file() for path in files.values()) else None


def _object(cache: Path, md5: str) -> Path:
    return cache / "files" / "md5" / md5[:2] / md5[2:]


def _store(files: Mapping[str, Path], output: Path) -> None:
    """Second names or copies of `files` as a sealed folder; the names a run goes by are the publisher's to write."""
    with replacing(output, "output") as fresh:
        for name, path in files.items():
            if name != CONFIG:
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                duplicate(path, fresh / name)
        seal(fresh)
