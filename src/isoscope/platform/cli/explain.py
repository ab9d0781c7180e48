"""Commands that say what would run, why, and how two results differ."""

from pathlib import Path
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.platform.cli.options import CHANGES, EXPLAIN, Arm, Here, Said, command, load
from isoscope.platform.cli.out_folders import check_free


@command(EXPLAIN, *CHANGES)
def why(
    here: Here,
    name: Annotated[str, typer.Argument(help="A study, or a DVC stage.", metavar="STUDY|STAGE")],
    arm: Arm = None,
    seed: Annotated[int | None, typer.Option(help="Seed [default: the study's].", min=0, max=2**31 - 1)] = None,
) -> Said:
    """Say why runs would train again, and why DVC would run a stage. Changes nothing.

    Each run is compared with the last finished run of its study, arm and seed: parameters, rows of data, functions of
    the code with the commits that changed them, plug-ins, runs that it starts from. To compare results that are there
    with those of a commit: isoscope diff HEAD .

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


@command(EXPLAIN)
def diff(
    here: Here,
    a: Annotated[str, typer.Argument(help="A run, arm, study, checkpoint, bundle or git revision.")],
    b: Annotated[str, typer.Argument(help="Another.")],
    every: Annotated[bool, typer.Option("--all", help="Print all rows of all tables.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for a page with figures, and for the tables.")] = None,
) -> Said:
    """Compare two runs, arms, studies, checkpoints or revisions; exit code 1 if runs of one digest differ.

    A name is a digest or its first letters, a folder of runs (also in another project), STUDY or STUDY/ARM, the folder
    of a checkpoint, a bundle (FILE.zip, or FILE.zip:models/STUDY/ARM), or a git revision: REVISION, or
    REVISION:models/STUDY/ARM/seed-N, read from DVC's cache. Sets of runs are compared in pairs: by seed, or by arm and
    seed.

    Shows what differs in parameters, data, code, plug-ins and environment; metrics and golden traces, and the update
    at which they part; weights by layer; predictions that flipped; the similarity of hidden states.

    Example: isoscope diff models/fusion/conv2d/seed-0 models/fusion/conv2d/seed-1
    """
    if out is not None:
        check_free(out, such_as="diff")
    stage, confidence = load("platform.stages.diff"), here.configuration.root.analysis.confidence
    said: Said = stage.told(a, b, stage.diff(a, b, here.project, confidence), every=every, out=out)
    return said


@command(EXPLAIN, *CHANGES)
def plan(
    here: Here,
    target: Annotated[
        str | None, typer.Argument(help="A study, comparison or stage, such as train@fusion [default: all].")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time a few updates of models that no recorded run is like.")
    ] = False,
) -> Said:
    """Say what `isoscope repro` would do and how long it would take, without doing it.

    Times come from the runs that this machine has recorded. They stand with an interval.

    Example: isoscope plan fusion
    """
    stages = load("platform.stages.plan")
    found = stages.plan(stages.Planner(here.configuration, here.project, measure=measure), target)
    return found, stages.text(found)
