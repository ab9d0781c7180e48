"""The runs that are known here: what a list says of them, what depends on them, and how they are removed."""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from isoscope.base.environment import load
from isoscope.base.errors import InputError
from isoscope.base.paths import INDEX, PARTS, Project
from isoscope.platform.mirror.browsing import experiments
from isoscope.platform.runs.lines import FINISHED, TRAIN, Run, RunRecord
from isoscope.platform.runs.locks import Lease, held
from isoscope.platform.runs.output_files import CONFIG, named_digest
from isoscope.platform.runs.record import working_seconds
from isoscope.platform.runs.stored import PUBLISHED, accepted_runs, states_of
from isoscope.platform.runs.upkeep import Piece, remove, size_of
from isoscope.platform.stages.mirror import all_records

# A run in a list: bytes, seconds since its end and of work; `paths`: all that is removed with it, its record last.
Row = Mapping[str, Any]


def known_runs(project: Project) -> list[Row]:
    """Return the runs that have a record or a published output, by study, arm, seed and age."""
    places = [folder for pattern in (*PUBLISHED, f"{PARTS}/*") for folder in sorted(project.folder.glob(pattern))]
    named, notes = [(named_digest(folder / CONFIG), folder) for folder in places], accepted_runs(project)
    rows = (
        _row(project, one, run, [folder for digest, folder in named if digest == run.digest], notes.get(run.digest, []))
        for one in all_records(project)
        if (run := one.run) is not None
    )
    return sorted(rows, key=lambda row: (row["study"] or "", row["name"], -(row["age"] or 0)))


def _row(project: Project, record: RunRecord, run: Run, published: list[Path], notes: list[Path]) -> Row:
    folder, done = project.runs / run.digest, record.status == FINISHED
    name = "/".join(filter(None, (run.study or run.task, run.arm, None if run.seed is None else f"seed-{run.seed}")))
    marks = {
        "no output": done and not (published or run.seed is None or (folder / "output").is_dir()),
        "running": held(folder),
        "resumable": states_of(folder) and not done,
        "kept state": states_of(folder) and done,
        "restored": record.restored,
        "accepted": notes,
    }
    return {
        "run": run.digest,
        "name": name if run.stage == TRAIN else f"{run.stage} {name}",
        "study": run.study,
        "status": record.status.lower(),
        "state": [mark for mark, holds in marks.items() if holds],
        "bytes": size_of(folder, *published),
        "age": None if record.restored else time.time() - record.latest / 1000,
        "worked": working_seconds(record),
        "began": record.author.began if record.author else None,
        "reason": record.end.reason if record.end else None,
        "inputs": dict(run.inputs),
        "published": ["/".join(one.parts[-3:]) for one in published] if run.stage == TRAIN else [],
        "experiments": sorted(experiments(record, run)),
        "paths": [str(one) for one in (*published, *notes, folder, record.path) if one is not None and one.exists()],
    }


def chosen(rows: Sequence[Row], words: Iterable[str]) -> list[Row]:
    """Return the runs that words name: STUDY/ARM, STUDY/ARM/seed-N, or at least 6 digits of a digest."""
    found: dict[str, Row] = {}
    for word in (one.rstrip("/") for one in words):
        prefix = f"{word}/" if "/" in word else word if re.fullmatch("[0-9a-f]{6,64}", word) else " "
        some = [
            row
            for row in rows
            if row["run"].startswith(prefix)
            or any(f"{name}/".startswith(prefix) for name in (row["name"], *row["published"]))
        ]
        if not some or ("/" not in word and len(some) > 1):
            raise InputError(
                f"{word}: names {len(some) or 'no'} run{'s' * (len(some) > 1)}; give STUDY/ARM, STUDY/ARM/seed-N, or "
                "enough digits of a digest, at least 6 (see: isoscope ls)"
            )
        found |= {row["run"]: row for row in some}
    return [*found.values()]


def dependents(row: Row, others: Iterable[Row], project: Project) -> list[str]:
    """Return what would miss a run: `others` that read it, the report, and later code that has accepted it."""
    mine = tuple(f"{os.path.relpath(path, project.folder)}/" for path in row["paths"])
    found = {
        one["name"]
        for one in others
        for path, digest in one["inputs"].items()
        if digest == row["run"] or f"{path}/".startswith(mine)
    }
    # Studies may share a run: it has their names where it is published.
    found |= {name for name in row["published"] if name != row["name"]}
    found |= {f"later code, as {one.stem[:12]}" for one in map(Path, row["paths"]) if one.parent.name == "accepted"}
    shown = (page := project.folder / INDEX).is_file() and row["run"][:12] in page.read_text("utf-8", "replace")
    return [*sorted(found), *([str(INDEX)] if shown else [])]


def remove_runs(project: Project, rows: Iterable[Row], *, mlflow: bool) -> None:
    """Remove runs that no live process owns, also from MLflow if asked.

    Raises `HeldError`, or `InputError` if MLflow does not answer, before anything is removed.
    """
    with ExitStack() as stack:
        for row in rows:
            stack.enter_context(Lease(project.runs / row["run"], title=row["name"], note=False))
        if mlflow:
            load("isoscope.platform.mirror.mlflow").retire(
                project.state, {row["run"]: row["experiments"] for row in rows}
            )
        # The lease has made the folder of a run that has none.
        paths = (path for row in rows for path in dict.fromkeys([*row["paths"], str(project.runs / row["run"])]))
        remove([Piece(Path(path), 0, "") for path in paths], dry_run=False)
