"""A run over all cells of one or several studies, as stages such as analyse make: checked, tracked, figures drawn."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.platform.figures.style import notice, to_svg
from isoscope.platform.runs.prepared import content_md5
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.run import Identity, Run, tracked
from isoscope.platform.runs.stored import check_published
from isoscope.studies.view import View, added_digests, pictures, with_added

LOOKS = {"explore": (paths.INSIDE, paths.FIGURES), "chart": (paths.CHART, paths.CHARTS)}
"""Stage → folders of its tables and figures; the first is also the look that a study must ask for."""
SHOWN = 3
"""How many missing runs an error names."""
_NOTHING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="60">'
    '<text x="12" y="35" font-family="sans-serif" font-size="14">No runs to show</text></svg>\n'
)


def write_nothing(stage: str, name: str, project: paths.Project) -> None:
    """Write the empty outputs of a stage for a study that does not ask for it: DVC expects every output."""
    target = project.folder / paths.analysed(name)
    tables, figures = LOOKS[stage]
    with replacing(target / tables, "table") as empty, replacing(target / figures, "table") as drawn:
        write_text(empty / "nothing.txt", "No runs to show\n", "table")  # DVC warns of a folder without files
        write_text(drawn / "nothing.svg", _NOTHING, "table")
    if stage == "explore":
        write_text(target / "layers.csv", "figure,arm,layer,step,mean,sd,n\n", "table")


def check_present(name: str, outputs: Mapping[Path, Collection[Path]], project: paths.Project) -> None:
    """Check that the outputs of runs of the study `name` have these files, unchanged since they were published.

    Raises `InputError` that names what is missing or has changed.
    """
    missing = [output for output, files in outputs.items() if not all(file.is_file() for file in files)]
    if missing:
        shown = [output.relative_to(project.folder).as_posix() for output in missing[:SHOWN]]
        lacking = ", ".join([*shown, "…"] if len(missing) > SHOWN else shown)
        raise InputError(
            f"study {name!r}: {len(missing)} of {len(outputs)} runs are missing ({lacking}); run: isoscope train {name}"
        )
    for output, files in outputs.items():
        check_published(project, output, {file.relative_to(output).as_posix() for file in files})


def input_md5(path: str, project: paths.Project) -> str:
    """Return the hash of an input in a study's digest: of the content of prepared data, else DVC's."""
    place = project.folder / path
    return content_md5(place) if Path(path).parent == paths.processed("any").parent else dvc_md5(place)


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
    named: Mapping[str, str],
    threads: int | None = None,
) -> Iterator[tuple[Run, StopSignal]]:
    """Begin a tracked run of a stage over the whole study or comparison `name`, with the task of a study.

    `inputs`: hashes by path, as `input_md5`. `named`: paths and digests that its record shows. The stage checks
    `run.inputs` when it has read them all, before it replaces an output.
    """
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
            input_paths=dict(named),
            plugins=added_digests(),
        ),
        inputs=lambda: {path: input_md5(path, project) for path in inputs},
    )
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=threads, precision="fp64")
        yield run, stop


def draw_views(
    folder: Path, views: Sequence[View], tables: Mapping[str, pd.DataFrame], source: Mapping[str, str] | None = None
) -> None:
    """Draw the views, and those of plugins, that the tables have rows for; of none, a figure that says so."""
    for picture in pictures(with_added(views), tables):
        write_text(folder / f"{picture.name}.svg", to_svg(picture.figure(), source), "table")
    if not any(folder.iterdir()):
        write_text(folder / "nothing.svg", to_svg(notice("No runs: the study has no seeds")), "table")


def finish(run: Run, target: Path, shown: Iterable[Path]) -> Path:
    """Record the files to show beside the run, and its output `target`, which is returned."""
    for path in shown:
        run.record.artifact(path)
    run.finished_as(target, dvc_md5(target))
    return target
