"""Stored outputs: publish by link or copy, restore from a published copy or DVC's cache, accept for later code."""

import fcntl
import json
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from isoscope.base.atomic_files import MANIFEST, changed, fault, listed, replacing, seal, write_text
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.base.symlinks import dvc_cache
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.runs.card import CARD
from isoscope.platform.runs.lines import FINISHED, End, is_inside
from isoscope.platform.runs.output_files import CONFIG, METRICS, named_digest, points_of
from isoscope.platform.runs.provenance import dvc_md5, file_md5, file_sha256, tree_md5
from isoscope.platform.runs.record import read

LOCK = Path("dvc.lock")
RESTORED = "restored"
"""Mark in the folder of a run whose output another machine made: its record is not here."""
BEGAN = "began.json"  # in a run's folder of states: the finished run whose kept state it began from

_FICLONE = 0x40049409  # Linux ioctl: share a file's blocks, copy on write


def publish(source: Path, output: Path, *, extra: Mapping[str, str]) -> None:
    """Make `output` a copy of a sealed folder, by reflink, hard link or bytes, whichever works first.

    The copy is built beside `output` and renamed into place, so `output` is either the complete old or the complete
    new folder. DVC may turn the files into read-only links to its cache; they are never written again. `extra`:
    additional text files (name → text). The copy has no manifest.
    """
    with replacing(output, "publish") as fresh:
        for folder, _, files in os.walk(source):
            place = fresh / Path(folder).relative_to(source)
            place.mkdir(exist_ok=True)
            for name in set(files) - {MANIFEST}:
                duplicate(Path(folder) / name, place / name)
        for name, text in extra.items():
            (fresh / name).write_text(text, "utf-8")


def duplicate(source: str | Path, target: str | Path) -> None:
    """Link or copy a file, as cheaply as the file system allows."""
    try:
        with Path(source).open("rb") as reader, Path(target).open("xb") as writer:
            fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
    except OSError:
        Path(target).unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


PUBLISHED = tuple(f"{place}/*/*/seed-*" for place in ("models", "data/hidden_states", "data/measures"))
_MD5 = re.compile(r"[0-9a-f]{32}")
_OF_RUN = re.compile(r"(.+/seed-\d+)/(.+)")


def finished(project: Project, digest: str) -> End | None:
    """Return the FINISHED end in a run's record; None if the run is not finished."""
    file = project.records / f"{digest}.jsonl"
    end = read(file).end if file.is_file() else None
    return end if end is not None and end.status == FINISHED else None


def take_back(project: Project, digest: str) -> bool:
    """Restore a finished run's stored output, byte for byte; return False if there is no intact copy.

    The caller must own the run. `isoscope gc` removes stored outputs that DVC caches; the published folder or DVC's
    cache still has them. A clone has no record of the run; there, files from `dvc pull` count, checked by dvc.lock.
    """
    end = finished(project, digest)
    if files := whole_files(project, digest, end):
        with replacing(project.runs / digest / "output", "output") as fresh:
            for name, path in _written(files).items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                duplicate(path, fresh / name)
            seal(fresh, of=digest)
        if end is None:
            (project.runs / digest / RESTORED).touch()
    return bool(files)


def _written(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return the files that the run wrote; publishing writes the others, which differ between studies with one cell."""
    return {name: path for name, path in files.items() if name != CONFIG and Path(name).name != CARD}


def states_of(folder: Path) -> list[Path]:
    """Return the states in a run's folder, the newest last."""
    return sorted(folder.glob("states/step-*"))


def output_fault(project: Project, digest: str) -> str | None:
    """Return the fault of a run's stored output, or that it is another run's; None if it is intact."""
    return fault(project.runs / digest / "output", of=digest)


def whole_files(project: Project, digest: str, end: End | None) -> dict[str, Path]:
    """Return the intact files of a finished run's output by relative path; empty if they are incomplete.

    `end`: the end in the run's record; may be None or without the output's hash, and then dvc.lock vouches for it.
    """
    if end is None or end.output is None or end.output_md5 is None:
        return _vouched(project, digest)
    published = project.folder / end.output
    if published.is_dir() and dvc_md5(published) == end.output_md5:
        return _files(published)
    # Another study may have the run, too.
    return _if_sound(_cached_runs(project).get(end.output_md5, {})) or _vouched(project, digest)


def stored_points(project: Project, digest: str) -> list[dict[str, Any]] | None:
    """Return the metric points of a finished run: of its intact output, of a published copy, else of its record.

    None if the run is not finished here.
    """
    points = output_points(project, digest)
    if points is not None or finished(project, digest) is None:
        return points
    record = read(project.records / f"{digest}.jsonl")
    return None if record.damaged else [point._asdict() for point in record.metrics]


def output_points(project: Project, digest: str) -> list[dict[str, Any]] | None:
    """Return the metric points in a run's intact output, stored or published; None if there is none, or it has none."""
    file = files_of(project, digest).get(METRICS)
    return None if file is None else [*points_of(file)]


def _vouched(project: Project, digest: str) -> dict[str, Path]:
    """Return the files of an output with the run's digest, checked by dvc.lock (its own or a parent folder's hash)."""
    known = {project.folder / path: md5 for path, md5 in locked(project.folder).items()}
    for folder in (one for pattern in PUBLISHED for one in sorted(project.folder.glob(pattern))):
        if named_digest(folder / CONFIG) == digest and any(
            dvc_md5(place) == known[place] for place in (folder, *folder.parents) if place in known
        ):
            return _files(folder)
    return _if_sound(_of_digest(project, digest))


def _of_digest(project: Project, digest: str) -> dict[str, Path]:
    """Return the cached files of a run in dvc.lock; empty if they are not there."""
    lock = project.folder / LOCK
    return _named(project, lock.stat().st_mtime_ns).get(digest, {}) if lock.is_file() else {}


@lru_cache(maxsize=1)
def _named(project: Project, of_lock: int) -> dict[str, dict[str, Path]]:
    """Return digest → cached files of each run in dvc.lock; read once for all cells of a study."""
    runs = _cached_runs(project).values()
    named = ((named_digest(files[CONFIG]), files) for files in runs if CONFIG in files)
    return {digest: files for digest, files in named if digest is not None}


def check_published(project: Project, folder: Path, files: Collection[str] | None = None) -> None:
    """Check a published output against what vouches for it: the stored output's manifest, else dvc.lock.

    `files`: names or patterns of the files to check [default: all]; a file that the run wrote must be there.
    Raises `InputError` with the file that has changed, and the command that restores it. An output that nothing
    vouches for passes.
    """
    where = folder.relative_to(project.folder)
    *place, study, arm, seed = where.parts
    again = f"run: isoscope {_MAKERS[place[-1]]} {study} {arm} --seed {seed.removeprefix('seed-')}"
    if (digest := named_digest(folder / CONFIG)) is None:
        raise InputError(f"{where}: {CONFIG} does not name its run; {again}")
    hashed, known = _expected(project, digest)
    asked = [name for name in sorted(known) if files is None or any(fnmatchcase(name, one) for one in files)]
    if wrong := changed(folder, {name: known[name] for name in asked}, hashed):
        raise InputError(f"{where}: {wrong}; {again}")


_MAKERS = {"models": "train", "hidden_states": "states", "measures": "states"}


def written_by(project: Project, digest: str) -> Collection[str]:
    """Return the relative paths of the files that a run wrote; none if nothing vouches for it."""
    return _expected(project, digest)[1].keys()


def _expected(project: Project, digest: str) -> tuple[Callable[[Path], str], dict[str, str]]:
    """Return a hash function, and the hash of each file that a run wrote; no files if nothing vouches for it."""
    if stored := listed(project.runs / digest / "output"):
        return file_sha256, stored
    return file_md5, {name: _hash(path) for name, path in _written(_of_digest(project, digest)).items()}


def _cached_runs(project: Project) -> dict[str, dict[str, Path]]:
    """Return `locked_runs` of a project; a project without DVC has none."""
    return locked_runs(project.folder, dvc_cache(project)) if (project.state / ".dvc").is_dir() else {}


def files_of(project: Project, digest: str) -> dict[str, Path]:
    """Return the files that a run wrote, of its intact output, stored or published, by relative path; else none."""
    output = project.runs / digest / "output"
    there = output_fault(project, digest) is None
    return _written(_files(output) if there else whole_files(project, digest, finished(project, digest)))


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def locked(folder: Path) -> dict[str, str]:
    """Return path → hash of every output in a project's dvc.lock."""
    if not (folder / LOCK).is_file():
        return {}
    stages = read_yaml(folder, LOCK, most=None).get("stages") or {}
    found = {
        str(out["path"]): str(out["md5"]) for stage in stages.values() for out in stage.get("outs", ()) if "md5" in out
    }
    return {path: md5 for path, md5 in found.items() if is_inside(path) and _MD5.fullmatch(md5.removesuffix(".dir"))}


def locked_runs(folder: Path, cache: Path) -> dict[str, dict[str, Path]]:
    """Return DVC hash → cached files of each run's output inside the outputs of dvc.lock.

    Skips outputs that the cache holds incompletely.
    """
    found: dict[str, dict[str, Path]] = {}
    for place, md5 in locked(folder).items():
        listed: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name, of_file in listing(cache, md5).items():
            if match := _OF_RUN.fullmatch(f"{place}/{name}"):
                listed[match[1]][match[2]] = of_file
        for md5s in listed.values():
            files = {name: cached_file(cache, of_file) for name, of_file in md5s.items()}
            if all(path.is_file() for path in files.values()):
                found[tree_md5(md5s)] = files
    return found


def listing(cache: Path, md5: str) -> dict[str, str]:
    """Return relative path → hash of a folder in DVC's cache; empty if it is not there, or names other places."""
    try:
        listed = {
            str(one["relpath"]): str(one["md5"]) for one in json.loads(cached_file(cache, md5).read_text("utf-8"))
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return listed if all(is_inside(name) and _MD5.fullmatch(md5) for name, md5 in listed.items()) else {}


def _if_sound(files: dict[str, Path]) -> dict[str, Path]:
    """Return files of DVC's cache if each matches the hash in its name; else none."""
    return files if all(file_md5(path) == _hash(path) for path in files.values()) else {}


def _hash(path: Path) -> str:
    return path.parent.name + path.name


def cached_file(cache: Path, md5: str) -> Path:
    return cache / "files" / "md5" / md5[:2] / md5[2:]


def accepted_run(project: Project, digest: str) -> tuple[str, str] | None:
    """Return digest and code version of the run accepted for `digest`; None if there is none, or no intact copy."""
    note = _accepted(_note(project, digest))
    return note if note and files_of(project, note[0]) else None


def accept_run(project: Project, digest: str, *, run: str, code: str) -> None:
    """Accept the finished run `run` of code version `code` for `digest`: its golden trace is equal."""
    write_text(_note(project, digest), json.dumps({"run": run, "code": code}) + "\n", "note", shared=True)


def accepted_runs(project: Project) -> dict[str, list[Path]]:
    """Return the digests of the accepted runs, and the notes that accept each."""
    notes = {path: note[0] for path in sorted(_note(project, "").parent.glob("*.json")) if (note := _accepted(path))}
    return {run: [path for path in notes if notes[path] == run] for run in notes.values()}


def _note(project: Project, digest: str) -> Path:
    return project.state / ".isoscope" / "accepted" / f"{digest}.json"


def _accepted(path: Path) -> tuple[str, str] | None:
    """Return the accepted run and its code version."""
    try:
        note = json.loads(path.read_text("utf-8"))
        return str(note["run"]), str(note["code"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        print(f"warning: {path}: cannot be read; ignored", file=sys.stderr)
        return None
