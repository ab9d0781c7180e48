"""Stage `analyse@<study>`: learning curves, the comparison of arms, and their figures."""

import json
from collections.abc import Iterable
from pathlib import Path

from isoscope import paths
from isoscope.config.project import Analysis, Study
from isoscope.errors import InputError
from isoscope.figures.style import notice, to_svg
from isoscope.guard import StopSignal
from isoscope.outputs import PREDICTIONS, read_output
from isoscope.runs.prepared import check_trained_on, content_md5, read_manifest
from isoscope.runs.provenance import dvc_md5
from isoscope.runs.restored import ANALYSE, CONFIG, METRICS, SCORES, score_points, shown
from isoscope.runs.run import Identity, Run, tracked
from isoscope.sealing import replacing, write_text
from isoscope.studies import scored
from isoscope.studies.classified import baselines_on_test
from isoscope.studies.tables import scores, tables, write_tables
from isoscope.studies.view import added_digests, pictures, with_added

READ = (CONFIG, METRICS)
"""Files read of each run; of a classifier also its predictions."""


def analyse(analysis: Analysis, study: Study, *, name: str, arms: Iterable[str], project: paths.Project) -> Path:
    """Write `reports/parts/<study>/`: tables, `metrics.json` for `dvc metrics`, `config.yaml`; figures in `results/`.

    A study without seeds has empty tables. Raises `InputError` if a run is missing.
    """
    outputs = [project.folder / paths.trained(name, arm, seed) for arm in arms for seed in study.seeds]
    missing = [output for output in outputs if not all(file.is_file() for file in _read(output))]
    if missing:
        lacking = ", ".join(path.relative_to(project.folder).as_posix() for path in missing)
        raise InputError(
            f"study {name!r}: {len(missing)} of {len(outputs)} runs are missing ({lacking}); run: isoscope repro"
        )
    manifest = read_manifest(project, study.task)
    for output in outputs:  # baselines and runs must use the same test split
        trained = read_output(output).run
        again = f"isoscope train {name} {trained.arm} --seed {trained.seed}"
        check_trained_on(trained.inputs, project, study.task, output.relative_to(project.folder), again)
    run = Run(project, _identity(analysis, study, name, outputs, project))
    target = project.folder / paths.analysed(name)
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=None, precision="fp64")
        options = analysis.model_dump(include={"confidence", "power", "margin"})
        items = int(manifest["splits"]["test"]["rows"])
        made = tables(name, outputs, baselines_on_test(manifest), items=items, **options)
        write_tables(target, made)
        with replacing(project.folder / paths.results(name), "table") as drawn:
            for picture in pictures(with_added(scored.VIEWS), made.by_name):
                write_text(drawn / f"{picture.name}.svg", to_svg(picture.figure()), "table")
            if not any(drawn.iterdir()):
                write_text(drawn / "nothing.svg", to_svg(notice("No runs: the study has no seeds")), "table")
        found = scores(made.comparison)
        for file, text in {SCORES: json.dumps(found, indent=1, sort_keys=True) + "\n", CONFIG: run.summary()}.items():
            write_text(target / file, text, "table")
        for point in score_points(found):
            run.record.metric(**point)
        for path in shown(target):
            run.record.artifact(path)
        run.finished_as(target, dvc_md5(target))
    return target


def _read(output: Path) -> list[Path]:
    """Return the files of a run that its study's tables need."""
    files = [output / name for name in READ]
    classifies = files[0].is_file() and read_output(output).objective == "classification"
    return [*files, output / PREDICTIONS] if classifies else files


def _identity(analysis: Analysis, study: Study, name: str, outputs: list[Path], project: paths.Project) -> Identity:
    read = [file for output in outputs for file in _read(output)]
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
        plugins=added_digests(),
    )
