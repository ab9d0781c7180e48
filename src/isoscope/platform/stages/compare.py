"""Stage `compare@<name>`: compare the runs of several studies. It trains nothing."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.workers import with_bar, workers
from isoscope.data.parquet import write_parquet
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.project import Analysis, Study
from isoscope.platform.outputs import read_output
from isoscope.platform.runs.prepared import read_manifest
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.restored import CONFIG
from isoscope.platform.stages.study_run import draw_views, finish, md5s_of, study_run
from isoscope.platform.stages.trained_runs import checked_runs
from isoscope.studies.arms import StudyRuns, results
from isoscope.studies.compared_tables import COMPARED_TABLES
from isoscope.studies.comparisons import COMPARISONS


def compare(
    analysis: Analysis,
    comparison: Comparison,
    studies: Mapping[str, Study],
    *,
    name: str,
    arms: Mapping[str, Collection[str]],
    project: paths.Project,
) -> Path:
    """Write `reports/parts/<name>/`: `compared/` (tables, `config.yaml`), figures in `results/`; return the first.

    `arms`: study → its arms, for the studies of the comparison. Raises `InputError` if a run is missing.
    """
    kind, runs = COMPARED_TABLES[comparison.kind], {}
    inputs: dict[str, str] = {}
    for task in comparison.tasks:
        read_manifest(project, task)
        inputs |= md5s_of([project.folder / paths.processed(task)], project)
    for study in comparison.compared:
        own = studies[study]
        files = checked_runs(study, own, arms[study], kind.files, project)
        manifest = read_manifest(project, own.task)
        items = int(manifest["splits"]["test"]["rows"])
        runs[study] = StudyRuns(results(map(read_output, files), items, manifest), manifest)
        data = project.folder / paths.processed(own.task)
        inputs |= md5s_of((data, *(file for of_run in files.values() for file in of_run)), project)
    named = {path: dvc_md5(project.folder / path) if path.startswith("data/") else md5 for path, md5 in inputs.items()}
    params = {"analysis": analysis.model_dump(mode="json"), "comparison": comparison.model_dump(mode="json")}
    target, drawn = (project.folder / paths.analysed(name) / part for part in (paths.COMPARED, paths.RESULTS))
    with (
        threadpool_limits(1),
        workers(None, key="cores") as spread,
        study_run("compare", None, name, project, params=params, inputs=inputs, named=named, threads=1) as (run, stop),
    ):
        watch = partial(stop.check, f"compare {name}: stopped; run the same command to start this stage again")
        options = analysis.model_dump(include={"confidence", "power", "margin"})
        options |= comparison.model_dump(exclude={"kind", "studies"})
        tables = kind.tables(
            runs,
            processed=lambda task: project.folder / paths.processed(task),
            over=with_bar(spread, watch, f"compare {name}"),
            **options,
        )
        with replacing(target, "table") as fresh, replacing(drawn, "table") as shown:
            for table, rows in tables.items():
                write_parquet(rows, fresh / f"{table}.parquet")
            write_text(fresh / CONFIG, run.summary(), "table")
            draw_views(shown, COMPARISONS[comparison.kind].views, tables, {"Source": f"isoscope digest {run.digest}"})
            run.inputs.check()
        return finish(run, target, sorted(drawn.glob("*.svg")))
