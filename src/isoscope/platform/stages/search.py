"""Stage `search`: run trials until the budget is spent, on this machine or a cluster, and write the results."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from isoscope.base import built_in, paths
from isoscope.base.atomic_files import replacing, seal, write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.base.processes import StoppedError
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.searching import Search
from isoscope.platform.config.tree import difference, dump_yaml
from isoscope.platform.executor.execute import Place
from isoscope.platform.executor.placement import SLURM, Placement
from isoscope.platform.executor.this_machine import ThisMachine
from isoscope.platform.figures.origin import origin, packed
from isoscope.platform.runs.locks import HeldError
from isoscope.platform.search import space
from isoscope.platform.search.driver import Driver
from isoscope.platform.search.outcomes import PROVENANCE, front, importances, knee, saved_by_pruning
from isoscope.platform.search.records import Records
from isoscope.platform.search.search_figures import pictures
from isoscope.platform.search.status import Interrupts, LiveStatus, Status, in_words, status
from isoscope.platform.search.storage import TROUBLE, persist
from isoscope.platform.search.storage import Place as Storage
from isoscope.platform.search.study import BASE, HeldStudy, forget, held_study
from isoscope.platform.search.trials_table import reported, trials_table
from isoscope.platform.search.under_way import Plan
from isoscope.platform.stages.mirror import following
from isoscope.platform.stages.search_runs import identified, plan
from isoscope.platform.stages.stored_search import STUDY, TRIALS, kept
from isoscope.platform.stages.study_cells import Setup


def search(
    search: Search,
    configuration: Configuration,
    project: paths.Project,
    where: Storage,
    *,
    workers: int,
    placement: Placement,
    fork: bool,
    target: Path,
) -> tuple[Status, Path]:
    """Drive the search, `workers` trials at a time, until its budget is spent or it is stopped; write its results.

    `placement`: where the runs of trials work. `target`: folder of the results. Raises `InputError`
    on bad input, `HeldError` if another process drives the study, `StoppedError` after a signal.
    """
    known = identified(configuration, search, project)
    setup = None if placement.cluster is None else Setup(configuration, project, "train")
    words = setup.words if setup is not None and placement.cluster == SLURM else ()
    runs = plan(configuration, search, project, data=known["inputs"].get("data"), setup=setup, words=words)
    default = runs({})
    training = default[0].work.job.parts.training
    place = placement.room_for(training.threads, training.device, project=project)

    def fits(trial: FrozenTrial) -> bool:
        digests = [run.digest for run in runs(space.chosen(search, trial.params))]
        return bool(digests == trial.user_attrs.get(PROVENANCE, {}).get("digests"))

    stored = partial(kept, target, search, project, runs)
    steps = sum(run.steps for run in default)
    with held_study(search, known, where, steps=steps, fork=fork, kept=stored, fits=fits) as one:
        seen_now = partial(persist, partial(status, one.study, search), f"storage {where.shown}", _say)
        records = Records(project, search, identity=known, name=one.study.study_name)
        received = None if seen_now().done else _drive(one, runs, project, records, seen_now, place, workers)
        seen = seen_now()
        folder = write_results(one, configuration, target, identity=known, digest=records.digest)
    _say(in_words(seen))
    if received is not None and not seen.done:
        raise StoppedError(received, f"search {seen.study}: stopped; run the same command to resume")
    return seen, folder


def _drive(
    one: HeldStudy,
    runs: Plan,
    project: paths.Project,
    records: Records,
    status: Callable[[], Status],
    place: AbstractContextManager[Place],
    workers: int,
) -> int | None:
    """Carry out trials, mirrored to MLflow; return the signal that stopped it, if one did."""
    with (
        place as opened,
        LiveStatus(one, workers=workers) as screen,
        Interrupts(screen.say) as asked,
        following(project),  # around the records: it also sends the end of the study's record
        records.study(status),
        _forgotten_if_wrong(one),
    ):
        if isinstance(opened, ThisMachine):
            built_in.load(built_in.STAGES, "train")  # imports what local processes share
        Driver(one, runs, workers=workers, place=opened, screen=screen, asked=asked, records=records).run()
    return asked.received


@contextmanager
def _forgotten_if_wrong(one: HeldStudy) -> Iterator[None]:
    """Delete a new study if the search is wrong, as when no run logs the objective: its name is free again."""
    try:
        yield
    except HeldError:
        raise
    except InputError:
        if not one.began:  # trials of an earlier command stay, failed or not
            with suppress(*TROUBLE):
                forget(one)
        raise


def _say(line: str) -> None:
    print(f"isoscope: {line}", file=sys.stderr, flush=True)


def chosen_trial(study: optuna.Study) -> int | None:
    """Number of the best trial of a study, or of the suggested trial of its Pareto front."""
    found = knee(front(study), study.directions)
    return None if found is None else found.number


def overlay(configuration: Configuration, search: Search, params: Mapping[str, Any]) -> str:
    """The choices of a trial as an overlay: laid over the study, it gives the parameters of the trial."""
    choices = space.chosen(search, params)
    found = configuration.cell(search.study, search.arm, choices, search.settings)
    tree = difference(configuration.below(search.study, search.settings), found.tree)
    for name in choices:  # a choice may be a value of the search's settings, which the study does not have
        *parents, last = name.split(".")
        own, node = found.tree, tree
        for key in parents:
            own, node = own[key], node.setdefault(key, {})
        if parents:
            node[last] = own[last]
    return dump_yaml(tree)


def write_results(
    one: HeldStudy, configuration: Configuration, folder: Path, *, identity: Mapping[str, Any], digest: str
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
        rows = {"trials": packed(table.drop(columns="trial"))}
        source = origin("search", rows, (run for digests in table["digests"] for run in digests))
        for name, svg in pictures(study, found, chosen=number, metadata={"Source": source.text}):
            write_text(fresh / "figures" / f"{name}.svg", svg, "table")
        seal(fresh)
    return folder
