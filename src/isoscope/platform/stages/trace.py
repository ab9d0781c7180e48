"""`isoscope trace`: which rows and runs a figure was made of, and whether the project still has them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.figures.origin import origins
from isoscope.platform.mirror.browsing import searched
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.stages.mirror import all_records

NOW = {
    "same": "the project has the same rows",
    "other": "the project has other rows now",
    "missing": "the project has no such figure",
    "unknown": "no project here to compare with",
}


def trace(file: Path, project: Project | None) -> list[dict[str, Any]]:
    """Return what each figure in a file was made of; the file may be an SVG, PNG, PDF or page, under any name.

    Each has its `figure`, the digest of its `rows`, whether the project has them `now` (a key of `NOW`), and its
    `runs`, as `_run` returns them, by study, arm and seed. Raises `InputError` if there is no such file.
    """
    if not file.is_file():
        raise InputError(f"FILE {file}: no such file; give an SVG, PNG, PDF or page")
    drawn = () if project is None else (project.folder / "reports").glob("**/figures/*.svg")
    records = [] if project is None else all_records(project)
    here = {one.rows: one.figure for svg in drawn for one in origins(svg.read_bytes())}
    return [
        {
            "figure": one.figure,
            "rows": one.rows,
            "now": "same"
            if one.rows in here
            else "other"
            if one.figure in here.values()
            else "unknown"
            if project is None
            else "missing",
            "runs": sorted(
                (
                    {"digest": of, "said": "no project here"} if project is None else _run(of, records)
                    for of in one.runs
                ),
                key=lambda run: (run.get("study", ""), run.get("arm", ""), run.get("seed", 0)),
            ),
        }
        for one in origins(file.read_bytes())
    ]


def _run(digest: str, records: Iterable[RunRecord]) -> dict[str, Any]:
    """Return the run whose digest begins with these digits: names, commit and command, as far as they are known here.

    `records`: of a clone, those that its published outputs restore.
    """
    record = next((one for one in records if one.run and one.run.digest.startswith(digest)), None)
    if record is None or (run := record.run) is None:
        return {"digest": digest, "said": "no record here"}
    git = record.author.git if record.author else {}
    command = f"isoscope train {run.study} {run.arm} --seed {run.seed}"
    facts = {"commit": git.get("commit"), "command": "isoscope search run" if searched(record, run) else command}
    commit = f"commit {str(facts['commit'])[:12]}{' with changes' * bool(git.get('dirty'))}" if git else "no commit"
    return {"digest": run.digest, "study": run.study, "arm": run.arm, "seed": run.seed, **facts} | {
        "said": f"{run.study} {run.title}, {commit}: {facts['command']}"
    }
