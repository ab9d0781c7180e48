"""A tracked run over all cells of one or several studies, whose outputs are checked first."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.kind import of_study
from isoscope.base.processes import StopSignal
from isoscope.platform.config.declared import declares
from isoscope.platform.config.project import Study
from isoscope.platform.figures.pictures import added_digests
from isoscope.platform.outputs import PREDICTIONS, TRANSLATIONS, read_output
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.output_files import CONFIG, METRICS, OBJECTIVE
from isoscope.platform.runs.prepared import check_trained_on, content_md5
from isoscope.platform.runs.provenance import LIBRARIES, dvc_md5
from isoscope.platform.runs.record import read
from isoscope.platform.runs.run import Run, tracked
from isoscope.platform.runs.stored import check_published
from isoscope.plugins import kind_digests

STORES = {"states": paths.extracted, "measures": paths.measured}
"""What a kind may read beside the runs' outputs → its folder of an arm and seed. `isoscope states` makes both."""
VERSIONS = ["python", *(name for name in LIBRARIES if name not in ("isoscope", "dvc", "mlflow"))]
"""What can change numbers under an equal digest; isoscope's own code is part of it."""
SHOWN = 3
"""How many missing runs an error names."""


def check_present(
    name: str, outputs: Mapping[Path, Collection[Path]], project: paths.Project, verb: str, *further: str
) -> None:
    """Check that the outputs of runs of the study `name` have these files, unchanged since they were published.

    `verb`: the command that makes them. `further`: patterns of files to check where a run wrote them. Raises
    `InputError` that names what is missing or has changed.
    """
    missing = [output for output, files in outputs.items() if not all(file.is_file() for file in files)]
    if missing:
        shown = [output.relative_to(project.folder).as_posix() for output in missing[:SHOWN]]
        lacking = ", ".join([*shown, "…"] if len(missing) > SHOWN else shown)
        of = f"{len(missing)} of {len(outputs)} runs are missing ({lacking})"
        raise InputError(f"study {name!r}: {of}; run: isoscope {verb} {name}")
    for output, files in outputs.items():
        check_published(project, output, [*further, *(file.relative_to(output).as_posix() for file in files)])


def checked_runs(
    name: str, study: Study, arms: Iterable[str], files: Collection[str], project: paths.Project
) -> dict[Path, list[Path]]:
    """Return the folder of each run of a study, reference arm first, with its `run_files`.

    Raises `InputError` if a run or a file that it wrote is missing or damaged, or if it was not trained on the prepared
    data.
    """
    outputs = [project.folder / paths.trained(name, arm, seed) for arm in arms for seed in study.seeds]
    found = {output: run_files(output, files) for output in outputs}
    check_present(name, found, project, "train", PREDICTIONS.name, TRANSLATIONS.name, *files)
    for output in outputs:  # baselines and runs must use the same test split
        run = read_output(output).run
        again = f"isoscope train {name} {run.arm} --seed {run.seed}"
        check_trained_on(run.inputs, project, study.task, output.relative_to(project.folder), again)
    if different := differing_versions(outputs, project):
        print(f"warning: study {name!r}: its runs were trained with different versions: {different}", file=sys.stderr)
    return found


def checked_stores(
    name: str, study: Study, arms: Iterable[str], stores: Collection[str], project: paths.Project
) -> dict[str, dict[tuple[str, int], Path]]:
    """Return, of each of a study's `stores`, the folder of each arm and seed.

    Raises `InputError` if a folder is missing or damaged.
    """
    cells = [*product(arms, study.seeds)]
    found = {store: {cell: project.folder / STORES[store](name, *cell) for cell in cells} for store in stores}
    for folders in found.values():
        check_present(name, {folder: [folder / CONFIG] for folder in folders.values()}, project, "states", "*")
    return found


def differing_versions(outputs: Iterable[Path], project: paths.Project) -> str | None:
    """Name the library whose version differs between runs, with a run of each version; None if there is none.

    Runs without a record, as in a clone, are not known.
    """
    made = {}
    for output in outputs:
        record = project.records / f"{read_output(output).run.digest}.jsonl"
        if record.is_file() and (author := read(record).author):
            made[output.relative_to(project.folder).as_posix()] = author.environment
    table = pd.DataFrame.from_dict(made, orient="index").reindex(columns=VERSIONS).astype(str)
    different = [name for name in VERSIONS if table[name].nunique() > 1]
    if not different:
        return None
    name, more = different[0], f" (and {len(different) - 1} more libraries)" if len(different) > 1 else ""
    first = table[name].drop_duplicates()
    return f"{name} " + ", ".join(f"{version} in {output}" for output, version in first.items()) + more


def run_files(output: Path, files: Collection[str]) -> list[Path]:
    """Return the parameters and metrics of a run, its predictions or translations, and those of `files` that it has."""
    by_row = (output / CONFIG).is_file() and declares(read_output(output).objective, "by_item")
    beside = (*([] if by_row else [PREDICTIONS]), TRANSLATIONS.name, OBJECTIVE, *files)
    optional = [path for name in beside for path in sorted(output.glob(str(name)))]
    return [
        output / CONFIG,
        output / METRICS,
        *([output / PREDICTIONS] if by_row else []),
        *(path for path in optional if path.is_file()),
    ]


def input_md5(path: str, project: paths.Project) -> str:
    """Return the hash of an input in a study's digest: of the content of prepared data, else DVC's."""
    place = project.folder / path
    return content_md5(place) if is_data(path) else dvc_md5(place)


def is_data(path: str) -> bool:
    """Return whether a path is that of prepared data."""
    return Path(path).parent == paths.processed("any").parent


def md5s_of(files: Iterable[Path], project: paths.Project) -> dict[str, str]:
    """Return `input_md5` of each file or folder, by its path in the project."""
    places = (file.relative_to(project.folder).as_posix() for file in files)
    return {path: input_md5(path, project) for path in places}


@contextmanager
def study_run(
    stage: str,
    task: str | None,
    name: str,
    project: paths.Project,
    *,
    params: Mapping[str, Any],
    inputs: Mapping[str, str],
    kind: str,
) -> Iterator[tuple[Run, StopSignal]]:
    """Begin a tracked run of a stage over the whole study or comparison `name`, with the task of a study.

    `inputs`: hashes by path, as `input_md5`. The stage calls `run.check_inputs` when it has read them all,
    before it replaces an output.
    """
    named = {path: dvc_md5(project.folder / path) if is_data(path) else md5 for path, md5 in inputs.items()}
    run = Run(
        project,
        Identity(
            stage=stage,
            study=name,
            arm=None,
            seed=None,
            task=task,
            axes={},
            params=dict(params),
            inputs=dict(inputs),
            input_paths=named,
            plugins=added_digests() | kind_digests(kind),
            loads=tuple(name for one in of_study(kind) for name in one.modules),
        ),
        inputs=lambda: {path: input_md5(path, project) for path in inputs},
    )
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=1, precision="fp64")
        yield run, stop
