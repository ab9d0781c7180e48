"""Stage `chart-<study>`: compare arms over training: curves, final averages, differences, published values."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from isoscope.base import paths
from isoscope.base.atomic_files import replacing
from isoscope.base.errors import InputError
from isoscope.data.parquet import write_parquet
from isoscope.platform.config.project import Analysis, Reproduction, Study
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.outputs import CONFIG
from isoscope.platform.runs.prepared import source
from isoscope.platform.runs.restored import METRICS
from isoscope.platform.stages.study_run import check_present, draw_views, finish, md5s_of, study_run
from isoscope.studies.curves import averages, compared, curves, thinned
from isoscope.studies.isotropy import VIEWS
from isoscope.studies.isotropy.courses import COMPARED, FORCE, TASK_METRICS, TRADED
from isoscope.studies.isotropy.doses import Dose, at_equal, dose, references
from isoscope.studies.isotropy.reproduction import Known, known_values, reproduction


def chart(
    analysis: Analysis,
    reproduced: Reproduction,
    study: Study,
    *,
    name: str,
    arms: Iterable[str],
    project: paths.Project,
) -> Path:
    """Write `reports/parts/<study>/chart/`: averages, differences, differences at matched effect, published numbers;
    and figures (svg).

    A study without seeds has empty tables. Raises `InputError` if a run is missing.
    """
    folders = {arm: [project.folder / paths.trained(name, arm, seed) for seed in study.seeds] for arm in arms}
    outputs = [output for of_arm in folders.values() for output in of_arm]
    check_present(name, {output: [output / METRICS] for output in outputs}, project)
    known = {arm: _published(of_arm, reproduced, project) for arm, of_arm in folders.items() if of_arm}
    doses = {arm: _dose(of_arm) for arm, of_arm in folders.items() if of_arm}
    against = references(doses)
    inputs = md5s_of((output / METRICS for output in outputs), project)
    params = {
        "analysis": analysis.model_dump(mode="json"),
        "reproduction": reproduced.model_dump(mode="json"),
        "published": known,
        "doses": doses,
    }
    target, drawn = (project.folder / paths.analysed(name) / part for part in (paths.CHART, paths.CHARTS))
    with study_run("chart", study.task, name, project, params=params, inputs=inputs, named=inputs) as (run, _):
        points = curves(outputs)
        means = averages(points, last=reproduced.last)
        options = analysis.model_dump(include={"confidence", "power"})
        found = reproduction(means, known, **options)
        with replacing(target, "table") as fresh, replacing(drawn, "table") as shown:
            of_doses = pd.DataFrame([(arm, *one) for arm, one in doses.items()], columns=["arm", *Dose._fields])
            shown_tables = {"averages": means, "courses": thinned(points), "doses": of_doses, "published": found}
            for one, table in shown_tables.items():
                write_parquet(table, fresh / f"{one}.parquet")
            if len(folders) > 1 and len(means):
                write_parquet(compared(means, COMPARED, against=against, **options), fresh / "differences.parquet")
                equal = at_equal(
                    means, doses, anisotropy=list(TRADED), force=FORCE, metrics=list(TASK_METRICS), **options
                )
                if len(equal):
                    write_parquet(equal, fresh / "equal.parquet")
            draw_views(shown, VIEWS, shown_tables, {"Source": f"isoscope digest {run.digest}"})
            run.inputs.check()
        for arm, figure, value in means.groupby(["arm", "figure"], sort=False)["value"].mean().reset_index().to_numpy():
            run.record.metric(f"end/{figure}/{arm}", float(value), step=0)
        return finish(run, target, sorted(drawn.glob("*.svg")))


def _dose(outputs: list[Path]) -> Dose:
    """Return the dose of an arm's runs. Raises `InputError` if its runs have different doses."""
    found = {dose(read_yaml(output, CONFIG)) for output in outputs}
    if len(found) > 1:
        raise InputError(
            f"{outputs[0].parent}: its seeds have different weights or shares of train; run: isoscope repro"
        )
    return found.pop()


def _published(outputs: list[Path], reproduced: Reproduction, project: paths.Project) -> dict[str, Known] | str:
    """Return the published values of an arm's runs, or why there are none.

    The settings are those that the runs were trained with; params.yaml may have changed since.
    """
    found = []
    for run in (read_yaml(output, CONFIG) for output in outputs):
        data = source(project, run["task"], run["inputs"].get(paths.processed(run["task"]).as_posix()))
        found.append(known_values(run, data, last=reproduced.last, tolerance=reproduced.tolerance))
    return found[0] if all(one == found[0] for one in found) else "its runs were trained with different settings"
