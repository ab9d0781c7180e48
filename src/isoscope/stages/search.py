"""Stage `search`: trials until the budget is spent, by workers here and elsewhere, and what came of them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from isoscope import paths
from isoscope.config.load import Configuration
from isoscope.config.search import Search
from isoscope.errors import InputError
from isoscope.guard import StoppedError
from isoscope.search.identity import digest
from isoscope.search.live import Watching
from isoscope.search.mirrored import begin_study, note_trial
from isoscope.search.pool import Interrupts, Told, work
from isoscope.search.status import Status, in_words, status
from isoscope.search.study import Opened, Place, create, opened
from isoscope.search.worker import Outcome, Worker
from isoscope.stages.mirror import following
from isoscope.stages.search_results import kept, write_results
from isoscope.stages.search_runs import identified, plan
from isoscope.tracking.lease import Lease
from isoscope.tracking.provenance import environment, git_state
from isoscope.tracking.record import Record


class Found(NamedTuple):
    """A study, and where what came of it was written."""

    status: Status
    folder: Path | None


def search(
    search: Search,
    configuration: Configuration,
    project: paths.Project,
    where: Place,
    *,
    workers: int,
    fork: bool,
    join: bool,
    target: Path | None,
) -> Found:
    """Work on the study of the section `search` with so many workers, until it is done or they are told to stop.

    `join`: only help; the study must be there, and nothing is written but its trials. `target`: where its tables and
    figures go. Raises `InputError` on bad input, `StoppedError` after a signal.
    """
    known = identified(configuration, search, project)
    runs = plan(configuration, search, project)
    steps = sum(run.steps for run in runs({}))
    name = create(
        search, known, where, fork=fork, steps=steps, join=join, kept=None if target is None else kept(target)
    )
    git = git_state(project.folder)
    provenance = {"commit": git.commit, "dirty": git.dirty, "data": known["inputs"].get("data")}

    def start() -> None:
        one = opened(search, name, where, steps=steps)
        here = environment(device="cpu", threads=None, precision="fp32")

        def note(outcome: Outcome) -> None:
            note_trial(project, search, outcome, identity=known, name=name, git=git, environment=here)

        told = Told()
        Worker(one, runs, wishes=told, note=note, say=_say, provenance=provenance).run()

    one = opened(search, name, where, steps=steps)
    with ExitStack() as stack:
        watching = stack.enter_context(Watching(one.study, search, workers=workers))
        asked = stack.enter_context(Interrupts(watching.say))
        if not status(one.study, search).done:
            stack.enter_context(following(project))  # first: it sends the end of the study's record, too
            if not join:
                stack.enter_context(_noted(project, search, one, known, git))
            work(start, workers, asked=asked, look=watching.look)
        seen = status(one.study, search)
    one.leases.close()
    folder = (
        write_results(one, configuration, target, identity=known, digest=digest(known, name=name)) if target else None
    )
    print(f"isoscope: {in_words(seen)}", file=sys.stderr)
    if asked.received is not None and not seen.done:
        raise StoppedError(asked.received, f"search {name}: stopped; the same command goes on")
    return Found(seen, folder)


@contextmanager
def _noted(project: paths.Project, section: Search, one: Opened, known: dict[str, Any], git: Any) -> Iterator[None]:
    """The record of the study, by the first of those who work on it in this project; the others only work."""
    name = one.study.study_name
    own = digest(known, name=name)
    with ExitStack() as stack:
        try:
            stack.enter_context(Lease(project.runs / own, title=f"search {name}"))
        except InputError:
            yield
            return
        record = stack.enter_context(Record(project.records / f"{own}.jsonl"))
        here = environment(device="cpu", threads=None, precision="fp32")
        begin_study(record, section, identity=known, name=name, git=git, environment=here)
        try:
            yield
        except BaseException as error:
            record.end("FAILED", reason=f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        seen = status(one.study, section)
        done = sum((seen.complete, seen.pruned, seen.failed))
        for figure, value in (("trials", done), ("pruned", seen.pruned), ("failed", seen.failed)):
            record.metric(figure, value, step=done)
        for objectives in list(seen.best.values())[:1] if len(section.objectives) == 1 else []:
            for figure, number in objectives.items():
                record.metric(f"best/{figure}", number, step=done)
        record.end(
            "FINISHED" if seen.done else "KILLED", reason=None if seen.done else "stopped before its budget was spent"
        )


def _say(line: str) -> None:
    print(f"isoscope: {line}", file=sys.stderr, flush=True)
