"""Stage `analyse@<study>`: learning curves, the comparison of arms, and their figures."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.platform.config.project import Analysis, Study
from isoscope.platform.runs.prepared import read_manifest
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.restored import ANALYSE, CONFIG, SCORES, score_points, shown
from isoscope.platform.stages.study_run import draw_views, finish, md5s_of, study_run
from isoscope.platform.stages.trained_runs import checked_runs
from isoscope.studies import registry, scored
from isoscope.studies.results import baselines_on_test
from isoscope.studies.tables import scores, tables, write_tables


def analyse(analysis: Analysis, study: Study, *, name: str, arms: Iterable[str], project: paths.Project) -> Path:
    """Write `reports/parts/<study>/`: tables, `metrics.json` for `dvc metrics`, `config.yaml`; figures in `results/`.

    A study without seeds has empty tables. Raises `InputError` if a run is missing.
    """
    outputs = checked_runs(name, study, arms, registry.FILES, project)
    manifest = read_manifest(project, study.task)
    data = paths.processed(study.task)
    inputs = md5s_of((project.folder / data, *(file for files in outputs.values() for file in files)), project)
    named = inputs | {data.as_posix(): dvc_md5(project.folder / data)}
    params = {"analysis": analysis.model_dump(mode="json")}
    target = project.folder / paths.analysed(name)
    with study_run(ANALYSE, study.task, name, project, params=params, inputs=inputs, named=named) as (run, _):
        options = analysis.model_dump(include={"confidence", "power", "margin"})
        items = int(manifest["splits"]["test"]["rows"])
        more = partial(registry.added_tables, manifest=manifest)
        options |= {"items": items, "manifest": manifest, "more": more}
        made = tables(name, [*outputs], baselines_on_test(manifest), **options)
        run.inputs.check()
        write_tables(target, made)
        with replacing(project.folder / paths.analysed(name) / paths.RESULTS, "table") as drawn:
            draw_views(drawn, (*scored.VIEWS, *registry.VIEWS), made.by_name)
        found = scores(made.comparison)
        for file, text in {SCORES: json.dumps(found, indent=1, sort_keys=True) + "\n", CONFIG: run.summary()}.items():
            write_text(target / file, text, "table")
        for point in score_points(found):
            run.record.metric(**point)
        return finish(run, target, shown(target))
