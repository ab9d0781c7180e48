"""Commands that prove what results rest on, and hand it over."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from isoscope.base.errors import InputError
from isoscope.base.paths import INDEX, find_project
from isoscope.platform.cli.options import EXPLAIN, Here, Said, command, load
from isoscope.platform.cli.out_folders import check_free


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


@command(EXPLAIN)
def trace(
    file: Annotated[Path, typer.Argument(help="An SVG, PNG or PDF of a figure, or a page; its name does not matter.")],
) -> Said:
    """Say which rows and runs a figure was made of, and whether this project has the same rows.

    The digests are in the file's metadata, so it may be renamed or moved. Names, commits and commands of the runs come
    from the records of the project around the working folder; without a project, only the digests are said. Exit code
    1: the file carries nothing.

    Example: isoscope trace reports/parts/fusion/figures/curves.svg
    """
    project = None
    with suppress(InputError):
        project = find_project()
    stage = load("platform.stages.trace")
    if not (found := stage.trace(file, project)):
        lost = f"{file}: carries nothing: isoscope did not draw it, or another program has removed its metadata"
        return {"file": str(file), "figures": []}, lost, True
    figures = (f"\n  {one['figure']}: rows {one['rows'][:12]}: {stage.NOW[one['now']]}" for one in found)
    runs = (f"\n  run {run['digest'][:12]}: {run['said']}" for one in found for run in one["runs"])
    return {"file": str(file), "figures": found}, "".join((str(file), *figures, *dict.fromkeys(runs)))


@command(EXPLAIN, "overrides", "plugin")
def bundle(
    here: Here,
    out: Annotated[Path, typer.Argument(help="The new file, such as review.zip.")],
    study: Annotated[list[str], typer.Option(help="Only this study; may be repeated [default: all with seeds].")] = [],  # noqa: B006
    weights: Annotated[
        Literal["weights"] | None, typer.Option("--with", help="Also the weights of the models.")
    ] = None,
) -> Said:
    """Write what a reviewer needs as one zip file, a Workflow Run RO-Crate: page, tables, runs, parameters, plugins.

    Data are in it where the licence in their manifest allows it; manifests always. Secrets are replaced. Equal projects
    give equal bytes, and SHA256SUMS has the hash of every file. isoscope open makes it a project again.

    Example: isoscope bundle review.zip --study fusion --with weights
    """
    check_free(out.parent, such_as="given", key="the folder of OUT")
    root = here.configuration.root
    names = [one for one in study or root.studies if here.configuration.study(one).seeds]
    here.begin(*(root.studies[one].task for one in names))
    known = load("platform.stages.bundle").bundle(out, root, here.project, studies=names, weights=bool(weights))
    without = "without data files, as no licence allows them (the page may show some sentences)"
    notes = {without: "without_data", "secrets replaced in": "scrubbed"}
    told = (f"\n  {words}: {', '.join(known[key])}" for words, key in notes.items() if known[key])
    line = f"bundle: {out}: {known['files']} files of {', '.join(names)}, {out.stat().st_size / 1e6:.1f} MB"
    return {"out": str(out), "studies": names, **known}, "".join((line, *told))


@command(EXPLAIN, name="open")
def open_(
    archive: Annotated[Path, typer.Argument(help="A file of isoscope bundle.", metavar="BUNDLE")],
    out: Annotated[Path, typer.Argument(help="New folder for the project.", metavar="OUT")],
) -> Said:
    """Check every file of a bundle, and make it a project: a git repository with page, tables, runs and records.

    Works outside a project. The page and isoscope.load work at once; isoscope train repeats an arm where the data are
    there, or are made again by isoscope prepare. Plugins, dvc.yaml and the src/ of a checkout are code: read them
    before you run a command there.

    Example: isoscope open review.zip review
    """
    check_free(out, such_as="review", key="OUT")
    notes = load("platform.stages.bundle").unpack(archive, out)
    page = f"; see {out / INDEX}" * (out / INDEX).is_file()
    return {"out": str(out), "notes": notes}, "\n  ".join([f"open: {out}: every hash is right{page}", *notes])
