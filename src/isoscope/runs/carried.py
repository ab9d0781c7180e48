"""Carry out a run: take its lease, do or skip its work, publish it, and record its end."""

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
    """Own the run, `do` its work unless it is finished, and publish it; return the folder with the result.

    `do(finished)` must do nothing if `finished` is true. `do=None`: skip an unfinished run and return None. `output`:
    folder to publish to; None: publish nothing. `points`: reads the metric points of a finished output from its file
    `source`. `facts`: further entries of config.yaml.
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
