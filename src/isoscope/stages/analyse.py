"""Stage `analyse-<study>`: curves, the comparison of arms, confusion matrices."""

import json
from collections.abc import Iterable
from pathlib import Path

from isoscope import paths
from isoscope.analysis.baselines import baselines_on_test
from isoscope.analysis.outputs import read_output
from isoscope.analysis.tables import scores, tables, write_tables
from isoscope.config.project import Analysis, Study
from isoscope.errors import InputError
from isoscope.figures.style import to_svg
from isoscope.guard import StopSignal
from isoscope.sealing import write_text
from isoscope.studies import views
from isoscope.tracking.prepared import check_trained_on, content_md5, read_manifest
from isoscope.tracking.provenance import dvc_md5
from isoscope.tracking.restored import ANALYSE, CONFIG, SCORES, score_points, shown
from isoscope.tracking.run import Identity, Run, tracked

READ = ("config.yaml", "metrics.jsonl", "predictions.parquet")
"""Of each run."""


def analyse(analysis: Analysis, study: Study, *, name: str, arms: Iterable[str], project: paths.Project) -> Path:
    """Write `reports/parts/<study>/`: tables, `metrics.json` for `dvc metrics`, figures (svg), `config.yaml`.

    Of a study without seeds, which is not run here, they are empty. Raises `InputError` where a run is missing.
    """
    outputs = [project.folder / paths.trained(name, arm, seed) for arm in arms for seed in study.seeds]
    missing = [output for output in outputs if not all((output / name).is_file() for name in READ)]
    if missing:
        lacking = ", ".join(path.relative_to(project.folder).as_posix() for path in missing)
        raise InputError(
            f"study {name!r}: {len(missing)} of {len(outputs)} runs are missing ({lacking}); run: isoscope repro"
        )
    manifest = read_manifest(project, study.task)
    for output in outputs:  # the baselines are of the same test split
        trained = read_output(output).run
        again = f"isoscope train {name} {trained.arm} --seed {trained.seed}"
        check_trained_on(trained.inputs, project, study.task, output.relative_to(project.folder), again)
    run = Run(project, _identity(analysis, study, name, outputs, project))
    target = project.folder / paths.analysed(name)
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=None, precision="fp64")
        options = analysis.model_dump(include={"confidence", "power", "margin"})
        made = tables(name, outputs, baselines_on_test(manifest), **options)
        write_tables(target, made)
        found = scores(made.comparison)
        figures = {f"{view.name}.svg": to_svg(view.draw(*view.table(made.by_name))) for view in views.RUNS}
        texts = {SCORES: json.dumps(found, indent=1, sort_keys=True) + "\n", CONFIG: run.summary(), **figures}
        for file, text in texts.items():
            write_text(target / file, text, "table")
        for point in score_points(found):
            run.record.metric(**point)
        for path in shown(target):
            run.record.artifact(path)
        run.finished_as(target, dvc_md5(target))
    return target


def _identity(analysis: Analysis, study: Study, name: str, outputs: list[Path], project: paths.Project) -> Identity:
    read = [output / name for output in outputs for name in READ]
    runs = {file.relative_to(project.folder).as_posix(): dvc_md5(file) for file in read}
    data = paths.processed(study.task)
    inputs = {data.as_posix(): content_md5(project.folder / data), **runs}
    return Identity(
        stage=ANALYSE,
        study=name,
        arm=None,
        seed=None,
        task=study.task,
        axes={},
        params={"analysis": analysis.model_dump(mode="json")},
        inputs=inputs,
        input_paths=inputs | {data.as_posix(): dvc_md5(project.folder / data)},
        plugins={},
    )
