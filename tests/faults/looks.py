"""Fault injection in the hidden-state stages: no unfinished file counts, and no work is repeated."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import kit
from kit import Ended, Fault, Write

from isoscope.base.atomic_files import fault as damage
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.provenance import file_md5s
from pipeline_project import Project

Stood = dict[str, tuple[int, int]]
"""Inode and time of change of files by name: those that nobody has written again."""


class Look(NamedTuple):
    """A command, the project before and after it, and its undisturbed end."""

    words: tuple[str, ...]
    before: Project
    after: Project
    ended: Ended

    @property
    def writes(self) -> list[Write]:
        points = self.ended.points
        return [kit.named(points[: number + 1], self.after.folder) for number in range(len(points))]


def look(project: Project, folder: Path, *words: str) -> Look:
    """Run a command in a copy of `project`."""
    after = project.copy(folder)
    ended = kit.attempt(after.folder, *words)
    assert ended.code == 0, ended.err
    return Look(words, project, after, ended)


def visible(project: Project) -> dict[str, str]:
    """Return the md5 of every relevant file by path: pipeline, page or cache; no file with a dot in front."""
    found = {}
    for place in ("data/hidden_states", "data/measures", "reports", "geometry"):
        if (project.folder / place).is_dir():
            found |= {f"{place}/{name}": md5 for name, md5 in file_md5s(project.folder / place).items()}
    return {name: md5 for name, md5 in found.items() if "/." not in name}


def nothing_half_done(project: Project, right: Project) -> None:
    """Existing files equal the final files, and each sealed folder is whole."""
    assert visible(project).items() <= visible(right).items()
    for sealed in (*project.folder.glob(".isoscope/runs/*/output"), *project.folder.glob("geometry/cache/*/[!.]*")):
        assert damage(sealed) is None


def finished(project: Project) -> Stood:
    """The snapshots' hidden states that are done, of a run under way or at its end, and the cache of a page."""
    places = ("geometry/cache/states/*/states", ".isoscope/runs/*/work/states", ".isoscope/runs/*/output/states")
    stands = [file for place in places for file in project.folder.glob(f"{place}/[!.]*.safetensors")]
    whole = [file for file in stands if ".writing" not in str(file)]
    return {_owned(file): (file.stat().st_ino, file.stat().st_mtime_ns) for file in whole}


def _owned(file: Path) -> str:
    """Return a file's name and owner: the key in the page's cache, or a run's digest, wherever its work is."""
    owner = file.parents[1] if "cache" in file.parts else file.parents[2]
    return f"{owner.name}/{file.name}"


def ends_as(one: Look, project: Project) -> Stood:
    """Run the command again: it gives the undisturbed result; return what it found finished."""
    before = finished(project)
    again = kit.attempt(project.folder, *one.words)
    assert again.code == 0, again.err
    assert visible(project) == visible(one.after)
    after = finished(project)
    assert {name: after[name] for name in before} == before, "work that was done is not done again"
    for digest, record in one.after.records().items():
        same_points(project.records()[digest], record)
    return before


def same_points(record: RunRecord, right: RunRecord, *, but: tuple[str, ...] = ()) -> None:
    """A record holds its end, and each point once, as the `right` record; `but`: how names begin that may differ."""
    assert record.status == "FINISHED"
    assert record.damaged <= 1, "a line cut by the kill at most"
    assert max(Counter((point.name, point.step) for point in record.metrics).values(), default=1) == 1
    points = [[one for one in kept.metrics if not one.name.startswith(but)] for kept in (record, right)]
    first, second = ({(one.name, one.step, one.value) for one in own} for own in points)
    assert first == second


def struck(one: Look, project: Project, fault: Fault) -> Ended:
    """Run one attempt with a fault: it ends as expected and leaves no unfinished file that counts."""
    ended = kit.attempt(project.folder, *one.words, fault=fault)
    assert "Traceback" not in ended.err
    nothing_half_done(project, one.after)
    if ended.code == 0 and fault.action != "terminate":
        assert isinstance(fault.at, Write)
        assert fault.at.point == "record", "only a point of a metric may wait in memory, or stand there already"
    elif fault.action == "full":
        assert ended.code == 1
        assert "free space" in ended.err.splitlines()[-1]
        assert "same command again" in ended.err.splitlines()[-1]
    return ended
