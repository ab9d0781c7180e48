"""A stored output that is gone, put back from where it was published or from DVC's cache."""

import json
from collections.abc import Mapping
from pathlib import Path

from isoscope.links import dvc_cache
from isoscope.paths import Project
from isoscope.sealing import replacing, seal
from isoscope.tracking.dvc_lock import locked
from isoscope.tracking.lines import FINISHED, End
from isoscope.tracking.provenance import dvc_md5, file_md5
from isoscope.tracking.publish import duplicate
from isoscope.tracking.record import read
from isoscope.tracking.restored import CONFIG, published_digest

_PUBLISHED = tuple(f"{place}/*/*/seed-*" for place in ("models", "data/hidden_states", "data/measures"))


def finished(project: Project, digest: str) -> End | None:
    """How a run has finished, by its record; None where it has not."""
    file = project.records / f"{digest}.jsonl"
    end = read(file).end if file.is_file() else None
    return end if end is not None and end.status == FINISHED else None


def take_back(project: Project, digest: str) -> bool:
    """Put a finished run's stored output back, byte for byte; the caller owns the run. False where nobody has it.

    `isoscope gc` removes a stored output that DVC holds: the pipeline's place may still have it, or DVC's cache. A
    clone has no record of the run: what `dvc pull` has brought there counts where dvc.lock vouches for every byte.
    """
    files = whole_files(project, digest, finished(project, digest))
    if not files:
        return False
    _store(files, project.runs / digest / "output")
    return True


def whole_files(project: Project, digest: str, end: End | None) -> dict[str, Path]:
    """The files of a finished run's output by their path in it, each byte as it was; none where nobody has them all.

    `end`: how the run ended by its record, which may not know (None, or without the output's hash).
    """
    return _recorded(project, end) if end is not None and end.output_md5 else _vouched(project, digest)


def _recorded(project: Project, end: End) -> dict[str, Path]:
    """The files of an output as the run's record knows it; none where nobody has them."""
    if end.output is None or end.output_md5 is None:
        return {}
    published = project.folder / end.output
    if published.is_dir() and dvc_md5(published) == end.output_md5:
        return _files(published)
    files = cached(dvc_cache(project), end.output_md5) or {}
    sound = all(file_md5(path) == path.parent.name + path.name for path in files.values())
    return files if sound else {}


def _vouched(project: Project, digest: str) -> dict[str, Path]:
    """The files of a published output that names the run, if it is, or lies in, one whose hash dvc.lock has."""
    folders = (folder for pattern in _PUBLISHED for folder in sorted(project.folder.glob(pattern)))
    for folder in folders:
        if published_digest(folder) != digest:
            continue
        known = {project.folder / path: md5 for path, md5 in locked(project.folder).items()}
        if any(dvc_md5(place) == known[place] for place in (folder, *folder.parents) if place in known):
            return _files(folder)
    return {}


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


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
