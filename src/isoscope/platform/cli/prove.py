"""Commands that prove what results rest on, and hand it over."""

from typing import Annotated

import typer

from isoscope.platform.cli.options import EXPLAIN, Here, Said, command, load


@command(EXPLAIN)
def audit(
    here: Here,
    deep: Annotated[bool, typer.Option("--deep", help="Also repeat the first updates of each arm.")] = False,
) -> Said:
    """Say whether everything on the page is backed by a run, and what is damaged; exit code 1 if anything is.

    Makes tables, figures and page again in a temporary folder and compares them cell by cell. Compares every output
    with its manifest, record, dvc.lock and MLflow, and data with their manifests. --deep repeats the first 8 updates of
    each arm and compares the golden traces. Unknown files are notes. Changes nothing but the note of the result.

    Example: isoscope audit --json
    """
    setup = load("platform.stages.study_cells").Setup(here.configuration, here.project, "train")
    found = load("platform.stages.audit").audit(setup, deep=deep)
    bad = sum(kind != "note" for kind, _ in found)
    end = f"faults: {bad}" if bad else "every number on the page is backed by a run"
    text = "\n".join([*map(": ".join, found), f"audit: {end}, notes: {len(found) - bad}"])
    return {"sound": not bad, "findings": [{"kind": kind, "line": line} for kind, line in found]}, text, bool(bad)
