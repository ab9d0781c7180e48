"""Commands that say what would run, why, and how two results differ."""

from typing import Annotated

import typer

from isoscope.platform.cli.options import CHANGES, EXPLAIN, Here, Said, command, load


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
