"""Stages `analyse@<study>` and `compare@<comparison>`: tables and figures of finished runs, by their kind."""

import json
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.built_in import PLAIN
from isoscope.base.kind import Kind, kind, of_study
from isoscope.base.workers import Spread, with_bar, workers
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.project import Analysis, Reproduction, Study
from isoscope.platform.figures.origin import origin, with_rows
from isoscope.platform.figures.pictures import NOTHING, Picture, pictures, views_of
from isoscope.platform.figures.style import notice, to_svg
from isoscope.platform.outputs import read_output
from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.platform.results.study_tables import Tables, read_tables, scores, tables, write_tables
from isoscope.platform.runs.output_files import CONFIG, SCORES, score_points, shown
from isoscope.platform.runs.prepared import read_manifest, source
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.stages.study_run import STORES, checked_runs, checked_stores, md5s_of, study_run


def analyse(
    analysis: Analysis,
    reproduction: Reproduction,
    asked: Study | Comparison,
    studies: Mapping[str, Study],
    *,
    name: str,
    arms: Mapping[str, Collection[str]],
    project: paths.Project,
) -> Path:
    """Write `reports/parts/<name>/`: tables and figures of a study, or of a comparison of several; return it.

    A study also has the comparison of its arms, and `metrics.json` for `dvc metrics`. `arms`: study → its arms, for the
    studies to read. Raises `InputError` if a run is missing, and as the tables of the kind.
    """
    own, settings = kind(asked.kind), analysis.model_dump(include={"confidence", "power", "margin"})
    sections: dict[str, Any] = {"analysis": analysis, "reproduction": reproduction}
    options = {**analysis.model_dump(), **reproduction.model_dump(), "source": partial(_source, project)}
    options["processed"] = lambda task: project.folder / paths.processed(task)
    task, files = asked.task if isinstance(asked, Study) else None, []
    if not isinstance(asked, Study):
        sections["comparison"] = asked
        options |= asked.model_dump(exclude={"kind", "studies"})
        for data in asked.tasks:  # whose data must not be damaged
            read_manifest(project, data)
        files = [project.folder / paths.processed(one) for one in asked.tasks]
    runs: dict[str, StudyRuns] = {}
    for study, of in arms.items():
        runs[study], read = _runs(study, studies[study], of, own, project)
        files += read
    params = {"kind": asked.kind, **{one: section.model_dump(mode="json") for one, section in sections.items()}}
    inputs, stage = md5s_of(files, project), "analyse" if task else "compare"
    target = project.folder / paths.analysed(name)
    with (
        threadpool_limits(1),
        workers(1 if own.name == PLAIN else None, key="cores") as spread,
        study_run(stage, task, name, project, params=params, inputs=inputs, kind=own.name) as (run, stop),
    ):
        watch = partial(stop.check, f"{stage} {name}: stopped; run the same command to start this stage again")
        options["over"] = with_bar(spread, watch, f"{stage} {name}")
        found: dict[str, Any] = {}
        for one in of_study(own.name) if task else (own,):
            found |= one.tables(runs, **options)
        made = tables(name, runs[name], found, **settings) if task else Tables(name, found, [], [], **settings)
        run.check_inputs()
        write_tables(target, made)
        with replacing(target / paths.FIGURES, "table") as drawn:
            _draw(drawn, target, own.name, spread, watch, *runs.values())
        test = scores(made.comparison)
        if task:
            write_text(target / SCORES, json.dumps(test, indent=1, sort_keys=True) + "\n", "table")
        write_text(target / CONFIG, run.summary(), "table")
        added = [{"name": metric, "value": value, "step": 0} for metric, value in own.points(found).items()]
        for point in (*score_points(test), *added):
            run.record.metric(**point)
        for path in shown(target):
            run.record.artifact(path)
        run.finished_as(target, dvc_md5(target))
    return target


def _runs(
    name: str, study: Study, arms: Collection[str], own: Kind, project: paths.Project
) -> tuple[StudyRuns, list[Path]]:
    """Return the runs of a study, reference arm first, and the files and folders that were read."""
    outputs = checked_runs(name, study, arms, own.files, project)
    stores = checked_stores(name, study, arms, STORES if study.states else own.stores, project)
    manifest = read_manifest(project, study.task)
    read = [project.folder / paths.processed(study.task), *(file for of_run in outputs.values() for file in of_run)]
    read += [folder for of_store in stores.values() for folder in of_store.values()]
    return kind(PLAIN).runs(map(read_output, outputs), manifest, stores), read


def _source(project: paths.Project, run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the source of a run's data, from the contents of its config.yaml; None if they are not here."""
    return source(project, run["task"], run["inputs"].get(paths.processed(run["task"]).as_posix()))


def _draw(folder: Path, target: Path, kind: str, spread: Spread, watch: Callable[[], None], *runs: StudyRuns) -> None:
    """Draw the views of all studies, of plugins and of the kind; of none, a figure that says so."""
    places = range(len(_pictures(kind, target)))
    digests = [one.output.run.digest for of in runs for seeds in of.arms.values() for one in seeds.values()]
    for name, svg in spread(partial(_drawn, kind, target, digests), places, watch):
        write_text(folder / f"{name}.svg", svg, "table")
    if not places:
        write_text(folder / f"{NOTHING}.svg", to_svg(notice("No runs: the study has no seeds")), "table")


def _drawn(kind: str, target: Path, runs: Collection[str], place: int) -> tuple[str, str]:
    """Draw a figure, found by its place: a process cannot be sent the functions of a plugin."""
    picture = _pictures(kind, target)[place]
    rows = picture.rows
    source = origin(f"{target.name}/{picture.name}", rows, runs).text
    return picture.name, with_rows(picture.written(partial(to_svg, metadata={"Source": source})), rows)


@lru_cache(maxsize=1)
def _pictures(kind: str, target: Path) -> list[Picture]:
    return [one for one in pictures(views_of(kind), read_tables(target).by_name) if not one.lines]
