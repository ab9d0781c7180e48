"""Commands that say what would run, why, and how two results differ."""

from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.options import CHANGES, EXPLAIN, Arm, Here, Said, command, load


@command(EXPLAIN, *CHANGES)
def why(
    here: Here,
    name: Annotated[str, typer.Argument(help="A study, or a DVC stage.", metavar="STUDY|STAGE")],
    arm: Arm = None,
    seed: Annotated[int | None, typer.Option(help="Seed [default: the study's].", min=0, max=2**31 - 1)] = None,
) -> Said:
    """Say why runs would train again, and why DVC would run a stage. Changes nothing.

    Each run is compared with the last finished run of its study, arm and seed: parameters, rows of data, functions of
    the code with the commits that changed them, plug-ins, runs that it starts from.

    Example: isoscope why fusion conv2d --seed 0
    """
    project, configuration, *_ = here
    stage, found = load("platform.stages.why"), []
    study = name.removeprefix("train@")
    if study in configuration.root.studies:
        from isoscope.platform.stages.study_cells import Setup, training_job

        setup = Setup(configuration, project, "train")
        found = [stage.cause(training_job(setup, *one).run) for one in here.cells(study, arm, seed)]
    elif arm is not None or seed is not None:
        raise InputError(f"{name}: not a study of params.yaml; an arm and --seed need a study")
    targets = [] if arm else stage.targets(configuration, name)
    reasons = stage.stage_reasons(configuration, project, targets) if targets else {}
    lines = [f"{study}:", *stage.causes_said(found)] if found else []
    if any(one.acceptable for one in found):
        lines.append(
            f"  only code differs: isoscope accept {study} keeps runs whose first 8 updates are equal in every bit"
        )
    if found and all(one.state == stage.FINISHED for one in found):
        lines.append("  every run is found: train takes seconds")
    for one in targets:
        lines += [f"{one}: {'DVC would run it' if one in reasons else 'up to date'}"]
        lines += [f"  {line}" for line in reasons.get(one, [])]
    return {"runs": [one.values for one in found], "stages": {one: reasons.get(one, []) for one in targets}}, "\n".join(
        lines
    )
