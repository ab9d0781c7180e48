"""One run from its lease to its place: found finished, or done; then published, and noted in its record."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from isoscope.guard import StopSignal
from isoscope.runs.run import Run, tracked


def carry_out(
    run: Run,
    do: Callable[[bool], None] | None,
    *,
    stop: StopSignal,
    output: Path | None,
    points: Callable[[Path], Iterable[Mapping[str, Any]]],
    source: str,
    facts: Callable[[Path], Mapping[str, Any]],
) -> Path | None:
    """Own the run, `do` its work unless it was finished before, and publish it; returns the folder with the result.

    `do` is told whether it was: then it has nothing to do. Without one, a run that is not finished is left alone, and
    there is no result. `output`: where to publish it; None publishes nothing. `points`: those of a finished run's
    output, which has them in its file `source`. `facts`: what stands in config.yaml beside the run's names.
    """
    with tracked(run, stop):
        finished = run.finished
        if do is not None:
            do(finished)
        elif not finished:
            return None
        if finished:
            run.found(points(run.output), source=source)
        if output is None:
            return run.output
        run.finished_as(output, run.publish(output, **facts(run.output)))
    return output
