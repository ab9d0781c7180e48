"""Stage `chart-<study>`: arms over training: curves, averages of the end, differences, published figures."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope import paths
from isoscope.analysis.courses import averages, compared
from isoscope.analysis.curves import curves
from isoscope.analysis.doses import Dose, at_equal, dose, references
from isoscope.analysis.outputs import CONFIG, METRICS
from isoscope.analysis.parquet import write_parquet
from isoscope.analysis.reproduction import FILE, Known, published, reproduction
from isoscope.config.project import Analysis, Reproduction, Study
from isoscope.config.tree import read_yaml
from isoscope.errors import InputError
from isoscope.figures.style import notice, to_svg
from isoscope.guard import StopSignal
from isoscope.sealing import replacing, write_text
from isoscope.studies.views.courses import course, trade
from isoscope.tracking.prepared import source
from isoscope.tracking.provenance import dvc_md5
from isoscope.tracking.run import Identity, Run, tracked

TASK = {"validation/accuracy": "Accuracy", "validation/f1": "F1", "validation/matthews": "Matthews correlation"}
ANISOTROPY = {
    "step/a_1": "a₁ of a batch",
    "step/a_2": "a₂ of a batch",
    "step/a_3": "a₃ of a batch",
    "step/a_1_centred": "a₁ of a batch, mean removed",
    "step/a_2_centred": "a₂ of a batch, mean removed",
    "step/a_3_centred": "a₃ of a batch, mean removed",
}
TRADED = {
    "validation/a_1": "a₁ of the validation sample, raw",
    "validation/a_1_centred": "a₁ of the validation sample, mean removed",
}
EXPLAINED = {
    "validation/a_1_centred": "a₁ of the sample, mean removed",
    "validation/a_1_within": "a₁ within classes",
    "validation/a_1_clustered": "a₁ within k-means clusters",
    "validation/a_1_clustered_null": "The same, of Gaussian noise with the same spectrum",
    "validation/between_share": "Share of variance between classes",
    "validation/normal_cosine": "|cos| of first direction and class means' difference",
    "validation/normal_cosine_shuffled": "The same, labels shuffled",
}
BARS = {
    "validation/bar_mean": "Mean bar within classes",
    "validation/bar_longest": "Longest bar within classes",
    "validation/bar_evenness": "H / ln N of all bars within classes",
    "validation/radius": "Root mean squared distance to the mean",
}
PENALTY = {
    "step/penalty": "Penalty",
    "step/penalty_gradient_norm": "Norm of its gradient by the points",
    "step/loss": "Task loss (nats)",
}
POSTHOC = [
    f"posthoc/{laid}/{figure}"
    for laid in ("untouched", "all_but_the_top", "whitened")
    for figure in ("a_1", "a_1_centred", "ridge_accuracy", "ridge_matthews", "neighbour_accuracy", "neighbour_matthews")
]
FORCE = "step/penalty_gradient_norm"
PER_CLASS = {"entropy": "H of kept bars, class {}", "normalised": "H / ln k, class {}", "kept": "Kept bars, class {}"}


def chart(
    analysis: Analysis,
    reproduced: Reproduction,
    study: Study,
    *,
    name: str,
    arms: Iterable[str],
    project: paths.Project,
) -> Path:
    """Write `reports/<study>/chart/`: averages, differences, those at equal effect (parquet),
    `reproduction.json`; and figures (svg).

    Without seeds the study is not run here, and the tables are empty. Raises `InputError` where a run is missing.
    """
    folders = {arm: [project.folder / paths.trained(name, arm, seed) for seed in study.seeds] for arm in arms}
    outputs = [output for of_arm in folders.values() for output in of_arm]
    missing = [one.relative_to(project.folder).as_posix() for one in outputs if not (one / METRICS).is_file()]
    if missing:
        raise InputError(f"study {name!r}: not trained yet: {', '.join(missing)}; run: isoscope repro")
    known = {arm: _published(of_arm, reproduced, project) for arm, of_arm in folders.items() if of_arm}
    doses = {arm: _dose(of_arm) for arm, of_arm in folders.items() if of_arm}
    against = references(doses)
    of_runs = {"published": known, "doses": doses}
    run = Run(project, _identity(analysis, reproduced, of_runs, study, name, outputs, project))
    target, drawn = project.folder / paths.charted(name), project.folder / paths.charts(name)
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=None, precision="fp64")
        points = curves(outputs)
        means = averages(points, last=reproduced.last)
        figures = [*TASK, *ANISOTROPY, *EXPLAINED, *BARS, *PENALTY, *POSTHOC]
        options = {"confidence": analysis.confidence, "power": analysis.power}
        found = reproduction(means, known, **options)
        with replacing(target, "table") as fresh, replacing(drawn, "table") as shown:
            write_parquet(means, fresh / "averages.parquet")
            if len(folders) > 1 and len(means):
                write_parquet(compared(means, figures, against=against, **options), fresh / "differences.parquet")
                equal = at_equal(means, doses, anisotropy=list(TRADED), force=FORCE, metrics=list(TASK), **options)
                if len(equal):
                    write_parquet(equal, fresh / "equal.parquet")
            text = json.dumps([cell._asdict() for cell in found], indent=1)
            write_text(fresh / FILE, text + "\n", "table")
            for one, svg in _pictures(points, means, doses, {"Source": f"isoscope digest {run.digest}"}):
                write_text(shown / f"{one}.svg", svg, "table")
            if not any(shown.iterdir()):
                write_text(shown / "nothing.svg", to_svg(notice("No runs: the study has no seeds")), "table")
        for arm, figure, value in means.groupby(["arm", "figure"], sort=False)["value"].mean().reset_index().to_numpy():
            run.record.metric(f"end/{figure}/{arm}", float(value), step=0)
        for path in sorted(drawn.glob("*.svg")):
            run.record.artifact(path)
        run.finished_as(target, dvc_md5(target))
    return target


def _pictures(
    points: pd.DataFrame, means: pd.DataFrame, doses: Mapping[str, Dose], source: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Name and SVG of each picture that there are figures for."""
    groups = {"anisotropy": ANISOTROPY, "task": TASK, "penalty": PENALTY | _per_class(points)}
    for name, figures in (groups | {"explained": EXPLAINED, "bars": BARS}).items():
        if points["metric"].isin(figures).any():
            yield name, to_svg(course(points, figures), source)
    weights = {arm: (one.family, one.weight) for arm, one in doses.items()}
    for across, label in TRADED.items():
        if means["figure"].isin([across]).any():
            labels = (label, "Validation accuracy")
            picture = trade(means, across=across, up="validation/accuracy", labels=labels, weights=weights)
            yield f"trade-{across.rpartition('/')[2]}", to_svg(picture, source)
    if len({one.fraction for one in doses.values()}) > 1:
        shares = means.assign(
            arm=[doses[arm].group for arm in means["arm"]],
            step=[round(100 * doses[arm].fraction) for arm in means["arm"]],
            metric=means["figure"],
        )
        yield "fractions", to_svg(course(shares, TASK | TRADED, across="Share of the train split (%)"), source)


def _per_class(points: pd.DataFrame) -> dict[str, str]:
    classes = points.loc[points["metric"].str.startswith("step/kept/class_"), "metric"].drop_duplicates()
    numbers = [metric.rpartition("_")[2] for metric in classes]
    return {f"step/{name}/class_{k}": label.format(k) for k in numbers for name, label in PER_CLASS.items()}


def _dose(outputs: list[Path]) -> Dose:
    """That of an arm's runs. Raises `InputError` where they were trained with different ones."""
    found = {dose(read_yaml(output, CONFIG)) for output in outputs}
    if len(found) > 1:
        raise InputError(f"{outputs[0].parent}: seeds with different weights or shares of train; run: isoscope repro")
    return found.pop()


def _published(outputs: list[Path], reproduced: Reproduction, project: paths.Project) -> dict[str, Known] | str:
    """What an arm's runs are held against, by what they were trained with, whatever params.yaml says now."""
    options = {"last": reproduced.last, "tolerance": reproduced.tolerance}
    found = []
    for output in outputs:
        run = read_yaml(output, CONFIG)
        data = source(project, run["task"], run["inputs"].get(paths.processed(run["task"]).as_posix()))
        found.append(published(run, data, **options))
    return found[0] if all(one == found[0] for one in found) else "its runs were trained with different settings"


def _identity(
    analysis: Analysis,
    reproduced: Reproduction,
    of_runs: Mapping[str, Any],
    study: Study,
    name: str,
    outputs: list[Path],
    project: paths.Project,
) -> Identity:
    read = {(one / METRICS).relative_to(project.folder).as_posix(): dvc_md5(one / METRICS) for one in outputs}
    params: dict[str, Any] = {"analysis": analysis.model_dump(mode="json")}
    return Identity(
        stage="chart",
        study=name,
        arm=None,
        seed=None,
        task=study.task,
        axes={},
        params=params | {"reproduction": reproduced.model_dump(mode="json"), **of_runs},
        inputs=read,
        input_paths=read,
        plugins={},
    )
