"""`isoscope trace`: which rows and runs a figure was made of, and whether the project still has them."""

from pathlib import Path
from typing import Any

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.figures.origin import origins
from isoscope.platform.runs.record import read
from isoscope.platform.runs.restored import CONFIG, named_digest, restored

NOW = {
    "same": "the project has the same rows",
    "other": "the project has other rows now",
    "missing": "the project has no such figure",
    "unknown": "no project here to compare with",
}


def trace(file: Path, project: Project | None) -> list[dict[str, Any]]:
    """Return what each figure in a file was made of; the file may be an SVG, PNG, PDF or page, under any name.

    Each has its `figure`, the digest of its `rows`, whether the project has them `now` (a key of `NOW`), and its
    `runs`, as `_run` returns them. Raises `InputError` if there is no such file.
    """
    if not file.is_file():
        raise InputError(f"FILE {file}: no such file; give an SVG, PNG, PDF or page")
    drawn = () if project is None else (project.folder / "reports").glob("**/figures/*.svg")
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
            "runs": [
                {"digest": of, "said": "no project here"} if project is None else _run(of, project) for of in one.runs
            ],
        }
        for one in origins(file.read_bytes())
    ]


def _run(digest: str, project: Project) -> dict[str, Any]:
    """Return the run whose digest begins with these digits: names, commit and command, as far as they are known here.

    They are in its record; a clone has no records, and there the published output names the run.
    """
    known = [read(path) for path in project.records.glob(f"{digest}*.jsonl")]
    outputs = (one.parent for one in project.folder.glob("models/*/*/*/config.yaml") if not known)
    found = (one for one in outputs if (named_digest(one / CONFIG) or "").startswith(digest))
    known += [restored(one, root=project.folder, t=0) for one in found]
    if not known or (run := known[0].run) is None:
        return {"digest": digest, "said": "no record here"}
    git = known[0].author.git if known[0].author else {}
    facts = {"commit": git.get("commit"), "command": f"isoscope train {run.study} {run.arm} --seed {run.seed}"}
    commit = f"commit {str(facts['commit'])[:12]}{' with changes' * bool(git.get('dirty'))}" if git else "no commit"
    return {"digest": run.digest, "study": run.study, "arm": run.arm, "seed": run.seed, **facts} | {
        "said": f"{run.study} {run.title}, {commit}: {facts['command']}"
    }
