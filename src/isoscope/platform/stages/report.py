"""Stage `report`: write every figure to one page; large tables are files next to it."""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.load import ResolvedCell
from isoscope.platform.config.project import Report, Study
from isoscope.platform.config.tree import flatten
from isoscope.platform.mirror.fields import address_parts, known_experiments, read_notes
from isoscope.platform.report import build, read_records, summary
from isoscope.platform.report.runs import lacking
from isoscope.platform.results.study_tables import read_tables
from isoscope.platform.runs.locks import writing
from isoscope.platform.runs.prepared import read_manifest
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.secrets import scrub

AUDIT = Path(".isoscope/audit.json")  # the hash of `reports/parts` → the result of the last audit


class Reported(NamedTuple):
    """The page, and what was found, by study."""

    page: Path
    findings: dict[str, dict[str, Any]]


def report(
    report: Report,
    studies: Mapping[str, Study],
    comparisons: Mapping[str, Comparison],
    tasks: Collection[str],
    *,
    project: paths.Project,
    cells: Mapping[str, Mapping[str, ResolvedCell]] = MappingProxyType({}),
) -> Reported:
    """Write `reports/index.html`, and large tables to `reports/data`.

    They are made from the tables of studies and comparisons, tasks' manifests and runs' records. A study without seeds
    is not shown. `cells`: study → arm → its cell by params.yaml, to say what the page lacks of them. Raises
    `InputError` if tables or a manifest are missing.
    """
    shown = [read_tables(project.folder / paths.analysed(name)) for name, study in studies.items() if study.seeds]
    records = read_records(project.records, shown)
    manifests = {task: read_manifest(project, task) for task in tasks}
    lacks = {
        one.study: lacking(
            one,
            studies[one.study],
            {arm: flatten(cell.completed(manifests[studies[one.study].task]).tree) for arm, cell in arms.items()},
            records,
        )
        for one in shown
        if (arms := cells.get(one.study)) is not None
    }
    page = build(
        title=report.title or heading(study.study for study in shown),
        studies=shown,
        manifests=manifests,
        records=records,
        lacks=lacks,
        tracking_uri=pages(os.environ),
        experiments=known_experiments(project.state, None),
        search=project.folder / paths.SEARCH,
        folders={name: project.folder / paths.analysed(name) for name in (*studies, *comparisons)},
        comparisons=comparisons,
        kinds={name: study.kind for name, study in studies.items()},
        abouts={name: study.about for name, study in studies.items()},
        audited=audited(project),
    )
    target = project.folder / paths.INDEX
    with (
        writing(target.parent, called=f"{paths.INDEX}"),
        replacing(project.folder / paths.LARGE_TABLES, "report") as folder,
    ):
        for name, rows in page.files.items():
            (folder / Path(name).name).write_bytes(rows)
        write_text(target, page.html, "report")
    return Reported(target, {study.study: summary(study) for study in shown})


def pages(environment: Mapping[str, str]) -> str:
    """Return where MLflow's pages are: $MLFLOW_TRACKING_URI, or the pages of `isoscope ui`.

    Of a malformed address, say that the page has no links.
    """
    given = environment.get("MLFLOW_TRACKING_URI") or "http://127.0.0.1:5000"
    if address_parts(given) is None:
        print(
            f"warning: MLFLOW_TRACKING_URI={scrub(given)}: is not an address, so the page has no links to MLflow; "
            "unset it, or give http://host:port",
            file=sys.stderr,
        )
    return given


def audited(project: paths.Project) -> str:
    """Return the line of the last audit; empty without an audit, and if tables or figures have changed since."""
    known = dvc_md5(parts) if (parts := project.folder / paths.PARTS).is_dir() else ""
    return str(read_notes(project.state / AUDIT).get(known, {}).get("line", ""))


def heading(studies: Iterable[str]) -> str:
    """Return a page title with the names of the studies."""
    *others, last = [*studies] or ["none"]
    return f"Studies {', '.join(others)} and {last}" if others else f"Study {last}"
