"""Stage `search`: run trials until the budget is spent, on local or cluster workers, and write the results."""

import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import optuna

from isoscope import paths
from isoscope.config.load import Configuration
from isoscope.config.search_corners import check_search
from isoscope.config.searching import Search
from isoscope.config.tree import difference, dump_yaml
from isoscope.data.parquet import write_parquet
from isoscope.errors import InputError, RunError
from isoscope.executor.cluster import Cluster, connected
from isoscope.executor.execute import Requests, work
from isoscope.guard import StoppedError
from isoscope.models.build import check_device
from isoscope.runs.lease import HeldError, Lease
from isoscope.runs.locks import file_lock
from isoscope.runs.provenance import Git, environment, git_state
from isoscope.runs.record import Record
from isoscope.sealing import replacing, seal, write_text
from isoscope.search import space
from isoscope.search.outcomes import LEAST, front, importances, knee, saved_by_pruning
from isoscope.search.search_figures import pictures
from isoscope.search.status import Interrupts, LiveStatus, Status, in_words, status
from isoscope.search.storage import AWAY, Place, persist, place
from isoscope.search.stored_trials import nothing_stored
from isoscope.search.study import BASE, OpenStudy, begin_study, create, digest, forget, note_trial, opened
from isoscope.search.trials_table import reported, trials_table
from isoscope.search.worker import Worker
from isoscope.stages.mirror import following
from isoscope.stages.search_runs import identified, plan
from isoscope.stages.stored_search import STUDY, TRIALS, kept
from isoscope.stages.study_cells import Setup


def search(
    search: Search,
    configuration: Configuration,
    project: paths.Project,
    where: Place,
    *,
    workers: int,
    cluster: Cluster | None = None,
    fork: bool,
    join: bool,
    target: Path | None,
) -> tuple[Status, Path | None]:
    """Run the search with `workers` workers until its study is done or they are stopped; return status and results.

    `cluster`: where workers run (None: this machine). `join`: help an existing study, write nothing but its trials.
    `target`: folder of the results. Raises `InputError` on bad input, `StoppedError` after a signal.
    """
    known = identified(configuration, search, project)
    runs = plan(configuration, search, project)
    default = runs({})
    steps, training = sum(run.steps for run in default), default[0].work.parts.training
    if cluster is None:
        check_device(training.device, key="training.device")
    stored = nothing_stored if target is None else partial(kept, target, search, project, runs)
    name = create(search, known, where, fork=fork, steps=steps, join=join, kept=stored)
    git = git_state(project.folder)
    sized = cluster and cluster.sized(training.threads, device=training.device)
    one = opened(search, name, where, steps=steps)
    seen_now = partial(persist, partial(status, one.study, search), f"storage {where.shown}", _say)
    before = seen_now()
    one.storage.engine.dispose()  # workers are forked from here
    with ExitStack() as stack:
        nodes = stack.enter_context(connected(sized)) if sized and not before.done else None
        watching = stack.enter_context(LiveStatus(one, workers=workers))
        asked = stack.enter_context(Interrupts(watching.say))
        if not before.done:
            stack.enter_context(following(project))  # outermost: it also sends the end of the study's record
            if not join:
                stack.enter_context(_noted(project, search, one, known, git))
            if not join and not before.trials:  # trials of an earlier command stay, failed or not
                stack.enter_context(_forgotten_if_wrong(one))
            here = (search, configuration, project, where)
            start = partial(work_on, *here, steps=steps, name=name, identity=known, git=git)
            if nodes is not None:
                address = where.url.render_as_string(hide_password=False)
                start = partial(work_on_node, Setup(configuration, project, "search"), address, str(where.folder))
            work(start, workers, asked=asked, screen=watching, nodes=nodes)
        seen = seen_now()
    one.leases.close()
    folder = None
    if target is not None:
        with file_lock(where.folder / "results.lock"):  # two commands may end at once
            folder = write_results(one, configuration, target, identity=known, digest=digest(known, name=name))
    print(f"isoscope: {in_words(seen)}", file=sys.stderr)
    if asked.received is not None and not seen.done:
        raise StoppedError(asked.received, f"search {name}: stopped; run the same command to resume")
    if not seen.done:
        raise RunError(f"search {name}: workers stopped before the budget was spent; run the same command to resume")
    return seen, folder


def work_on(
    search: Search,
    configuration: Configuration,
    project: paths.Project,
    where: Place,
    requests: Requests,
    say: Callable[[str], None],
    *,
    steps: int,
    name: str,
    identity: Mapping[str, Any],
    git: Git,
) -> None:
    """Run a worker of the study `name` in this process. Raises `InputError` for errors that a retry does not help."""
    provenance = {"commit": git.commit, "dirty": git.dirty, "data": identity["inputs"].get("data")}
    here = environment(device="cpu", threads=None, precision="fp32")
    note = partial(note_trial, project, search, identity=identity, name=name, git=git, environment=here)
    one = opened(search, name, where, steps=steps)
    runs = plan(configuration, search, project, data=identity["inputs"].get("data"))
    Worker(one, runs, requests=requests, note=note, say=say, provenance=provenance).run()


def work_on_node(setup: Setup, storage: str, locks: str, requests: Requests, say: Callable[[str], None]) -> None:
    """Run a worker of a search that another node started; it needs plain values only.

    `storage`: address of the study. `locks`: folder of the search's files. Raises `InputError` if the project is
    missing here or differs: data, code or overlays.
    """
    configuration, project = setup.configuration, setup.project
    try:
        check_search(configuration)
        search = configuration.root.search
        assert search is not None
        where = place(storage, Path(locks))
        known = identified(configuration, search, project)
        steps = sum(run.steps for run in plan(configuration, search, project)({}))
        name = create(search, known, where, steps=steps, join=True)
    except InputError as error:
        raise InputError(f"node {socket.gethostname()}: {error}") from None
    git = git_state(project.folder)
    work_on(search, configuration, project, where, requests, say, steps=steps, name=name, identity=known, git=git)


@contextmanager
def _forgotten_if_wrong(one: OpenStudy) -> Iterator[None]:
    """Delete the study if the search is wrong, as when no run logs the objective: its name is free again."""
    try:
        yield
    except InputError:
        with suppress(*AWAY):
            forget(one)
        raise


@contextmanager
def _noted(project: paths.Project, section: Search, one: OpenStudy, known: dict[str, Any], git: Any) -> Iterator[None]:
    """Write the record of the study, if no other command of this project does."""
    name = one.study.study_name
    own = digest(known, name=name)
    with ExitStack() as stack:
        try:
            stack.enter_context(Lease(project.runs / own, title=f"search {name}"))
        except HeldError:
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
        best = next(iter(seen.best.values()), {}) if len(section.objectives) == 1 else {}
        counts = {"trials": done, "pruned": seen.pruned, "failed": seen.failed}
        for metric, value in (counts | {f"best/{name}": value for name, value in best.items()}).items():
            record.metric(metric, value, step=done)
        record.end(
            "FINISHED" if seen.done else "KILLED", reason=None if seen.done else "stopped before its budget was spent"
        )


def _say(line: str) -> None:
    print(f"isoscope: {line}", file=sys.stderr, flush=True)


def chosen_trial(study: optuna.Study) -> int | None:
    """Number of the best trial of a study, or of the suggested trial of its Pareto front."""
    found = knee(front(study), study.directions)
    return None if found is None else found.number


def overlay(configuration: Configuration, search: Search, params: Mapping[str, Any]) -> str:
    """The choices of a trial as an overlay: laid over the study, it gives the parameters of the trial."""
    found = configuration.cell(search.study, search.arm, space.chosen(search, params), search.settings)
    return dump_yaml(difference(configuration.below(search.study, search.settings), found.tree))


def write_results(
    one: OpenStudy, configuration: Configuration, folder: Path, *, identity: Mapping[str, Any], digest: str
) -> Path:
    """Write trials, importances, best trial and figures of a study to a folder; replace its content."""
    study, search = one.study, one.search
    table, number = trials_table(study), chosen_trial(study)
    found = importances(study)
    params = None if number is None else study.trials[number].params
    facts = {
        "name": study.study_name,
        "experiment": f"search-{search.name}",
        "objectives": search.objectives,
        "constraints": {
            name: f"{constraint.better}d, at most {constraint.margin} worse than the default"
            for name, constraint in search.constraints.items()
        },
        "default": study.user_attrs.get(BASE),
        "counts": {str(state): int(count) for state, count in table["state"].value_counts().items()},
        "best": number if len(search.objectives) == 1 else None,
        "front": [trial.number for trial in front(study)] if len(search.objectives) > 1 else [],
        "knee": number if len(search.objectives) > 1 else None,
        "saved": saved_by_pruning(study)._asdict(),
        "best_params": params,
        "digest": digest,
        "identity": identity,
    }
    with replacing(folder, "table") as fresh:
        write_parquet(table, fresh / TRIALS)
        write_parquet(reported(study), fresh / "reported.parquet")
        write_parquet(found, fresh / "importances.parquet")
        write_text(fresh / STUDY, json.dumps(facts, indent=1) + "\n", "table")
        if params is not None:
            write_text(fresh / "best.yaml", overlay(configuration, search, params), "table")
        (fresh / "figures").mkdir()
        source = {"Source": f"isoscope digest {digest}"}
        for name, svg in pictures(study, found, chosen=number, least=LEAST, metadata=source):
            write_text(fresh / "figures" / f"{name}.svg", svg, "table")
        seal(fresh)
    return folder
