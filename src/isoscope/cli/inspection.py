"""Looking inside models: hidden states, and what is measured in them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.cli.options import AsJson, Plugins, Set, app, as_stage, configure, heal, importing, say

Study = Annotated[str, typer.Argument(help="A study of params.yaml.")]
Arm = Annotated[str, typer.Argument(help="One value per axis, joined by '-'.")]
Seed = Annotated[int | None, typer.Option(help="Only the run with this seed.", min=0, max=2**31 - 1)]


@app.command()
def extract(
    study: Study,
    arm: Arm,
    seed: Seed = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Keep the hidden states of an arm's runs at every snapshot, over the probe set, or go on where that was stopped.

    They go to data/hidden_states/STUDY/ARM/; with -S or --plugin they stay in .isoscope/runs/.

    Example: isoscope extract fusion additive
    """
    project, given = _given(study, arm, seed, overrides, plugin)
    as_stage()
    heal(project)
    with importing():
        from isoscope.stages.extract import extract as stage

    _say(study, arm, stage(given.pop("root").extraction, **given, project=project), "extracted", as_json)


@app.command()
def measure(
    study: Study,
    arm: Arm,
    seed: Seed = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write the tables of what is seen in hidden states: geometry, feature dynamics, attention, spectra.

    They go to data/measures/STUDY/ARM/; with -S or --plugin they stay in .isoscope/runs/.

    Example: isoscope measure fusion additive -S measures.alignment=procrustes
    """
    project, given = _given(study, arm, seed, overrides, plugin)
    as_stage()
    heal(project)
    with importing():
        from isoscope.stages.measure import measure as stage

    _say(study, arm, stage(given.pop("root").measures, **given, project=project), "measured", as_json)


def _given(
    study: str, arm: str, seed: int | None, overrides: list[str], plugin: list[Path]
) -> tuple[Any, dict[str, Any]]:
    """The project, and what both stages are told: of the study's seeds all or one, in the pipeline's place or not."""
    project, configuration = configure(overrides, plugin)
    configuration.cell(study, arm)
    settings = configuration.study(study)
    seeds = settings.seeds if seed is None else (seed,)
    publish = not (overrides or plugin) and set(seeds) <= set(settings.seeds)
    given = {"study": settings, "name": study, "arm": arm, "seeds": seeds, "publish": publish}
    return project, {"root": configuration.root, **given}


def _say(study: str, arm: str, folders: list[Path], done: str, as_json: bool) -> None:
    shown = ", ".join(str(folder) for folder in folders) or "no seeds"
    say({"folders": [str(folder) for folder in folders]}, as_json, f"{done} {study} {arm}: {shown}")
