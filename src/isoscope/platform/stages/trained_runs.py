"""The finished training runs of a study, checked, for the stages that compare them."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from isoscope.base import paths
from isoscope.platform.config.project import Study
from isoscope.platform.outputs import PREDICTIONS, TRANSLATIONS, read_output
from isoscope.platform.runs.prepared import check_trained_on
from isoscope.platform.runs.provenance import LIBRARIES
from isoscope.platform.runs.record import read
from isoscope.platform.runs.restored import CONFIG, METRICS, OBJECTIVE
from isoscope.platform.runs.stored import check_published
from isoscope.platform.stages.study_run import check_present

VERSIONS = ("python", *(name for name in LIBRARIES if name not in ("isoscope", "dvc", "mlflow")))
"""What can change numbers under an equal digest; isoscope's own code is part of it."""


def checked_runs(
    name: str, study: Study, arms: Iterable[str], files: Collection[str], project: paths.Project
) -> dict[Path, list[Path]]:
    """Return the folder of each run of a study, reference arm first, with its `run_files`.

    Raises `InputError` if a run or a file that it wrote is missing or damaged, or if it was not trained on the prepared
    data.
    """
    outputs = [project.folder / paths.trained(name, arm, seed) for arm in arms for seed in study.seeds]
    found = {output: run_files(output, files) for output in outputs}
    check_present(name, found, project)
    for output in outputs:  # baselines and runs must use the same test split
        check_published(project, output, (PREDICTIONS.name, TRANSLATIONS.name, *files))
        run = read_output(output).run
        again = f"isoscope train {name} {run.arm} --seed {run.seed}"
        check_trained_on(run.inputs, project, study.task, output.relative_to(project.folder), again)
    if different := differing_versions(outputs, project):
        print(f"warning: study {name!r}: its runs were trained with different versions: {different}", file=sys.stderr)
    return found


def differing_versions(outputs: Iterable[Path], project: paths.Project) -> str | None:
    """Name the library whose version differs between runs, with a run of each version; None if there is none.

    Runs without a record, as in a clone, are not known.
    """
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for output in outputs:
        record = project.records / f"{read_output(output).run.digest}.jsonl"
        author = read(record).author if record.is_file() else None
        made = {name: str(author.environment.get(name)) for name in VERSIONS} if author else {}
        for name, version in made.items():
            found[name].setdefault(version, output.relative_to(project.folder).as_posix())
    different = {name: versions for name, versions in found.items() if len(versions) > 1}
    if not different:
        return None
    name, versions = next(iter(different.items()))
    more = f" (and {len(different) - 1} more libraries)" if len(different) > 1 else ""
    return f"{name} " + ", ".join(f"{version} in {output}" for version, output in versions.items()) + more


def run_files(output: Path, files: Collection[str]) -> list[Path]:
    """Return the parameters and metrics of a run, its predictions or translations, and those of `files` that it has."""
    classifies = (output / CONFIG).is_file() and read_output(output).objective == "classification"
    optional = [path for name in (TRANSLATIONS.name, OBJECTIVE, *files) for path in sorted(output.glob(name))]
    return [
        output / CONFIG,
        output / METRICS,
        *([output / PREDICTIONS] if classifies else []),
        *(path for path in optional if path.is_file()),
    ]
