"""Measure the overhead of a search: workers, storages, large studies. Prints Markdown.

Trials only sleep or count, so that only the search itself is measured.
"""

import argparse
import copy
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import optuna
from timing import bound, conclude, table

from isoscope.base.paths import Project
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.search.driver import Driver
from isoscope.platform.search.outcomes import PROVENANCE
from isoscope.platform.search.records import Records
from isoscope.platform.search.space import sampler, suggest
from isoscope.platform.search.status import Interrupts, LiveStatus, status
from isoscope.platform.search.storage import Place, place
from isoscope.platform.search.study import held_study

SPACE = {
    "fusion": {"choices": ["additive", "conv2d", "fft"]},
    "model.width": {"low": 1, "high": 9, "when": {"fusion": ["conv2d"]}},
    "penalty.weight": {"low": 0.1, "high": 100.0, "log": True},
}


def a_search(trials: int, kind: str = "random") -> Search:
    """Return a search of `trials` trials."""
    sampler = {"kind": kind, "seed": 0, **({"startup": 10} if kind == "tpe" else {})}
    tree = {
        "name": "bench",
        "study": "fusion",
        "arm": "additive",
        "settings": [],
        "seeds": [0],
        "space": SPACE,
        "objectives": {"value": "minimise"},
        "constraints": {},
        "at": "best",
        "budget": {"trials": trials, "hours": None},
        "retries": 0,
        "sampler": sampler,
        "pruner": {"kind": "none"},
    }
    return Search.model_validate(tree)


class Job:
    """A run that sleeps, or counts on one core, for `seconds`."""

    digest, steps = "none", 1
    arguments: tuple[str, ...] = ()

    def __init__(self, chosen: Mapping[str, Any], seconds: float, *, busy: bool) -> None:
        self.chosen, self.seconds, self.busy = chosen, seconds, busy

    def done(self) -> bool:
        """Return False: no run is reused."""
        return False

    def do(self, shown: Progress) -> str:
        """Sleep or count."""
        if not self.busy:
            time.sleep(self.seconds)
        total = 0
        for number in range(int(2.5e7 * self.seconds) if self.busy else 0):
            total += number
        return ""

    def reports(self) -> list[tuple[int, float]]:
        """Return no intermediate values."""
        return []

    def metrics(self) -> dict[str, float]:
        """Return one value."""
        return {"value": float(self.chosen["penalty.weight"])}


def searched(where: Place, trials: int, workers: int, seconds: float = 0.0, *, busy: bool = False) -> float:
    """Return the seconds of a search, with libraries already imported."""
    search, project = a_search(trials), Project(where.folder, where.folder)
    began = time.perf_counter()
    with held_study(search, identity_of(trials), where, steps=1) as one, LiveStatus(one, workers=workers) as screen:
        records = Records(project, search, identity=identity_of(trials), name=one.study.study_name)
        plan = lambda chosen: [Job(chosen, seconds, busy=busy)]  # noqa: E731
        with Interrupts(print) as asked:
            Driver(one, plan, workers=workers, place=None, screen=screen, asked=asked, records=records).run()
    return time.perf_counter() - began


def identity_of(trials: int) -> dict[str, Any]:
    """Return the identity of a search."""
    return {"of": trials, "inputs": {}, "code": ""}


def bare(url: str, trials: int, processes: int, *, forked: bool) -> float:
    """Return the seconds with Optuna and processes only: one per worker and, if `forked`, one per trial, like ours."""
    began = time.perf_counter()
    optuna.create_study(study_name="bare", storage=url)
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=_optimise, args=(url, trials // processes, forked)) for _ in range(processes)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    return time.perf_counter() - began


def _optimise(url: str, trials: int, forked: bool) -> None:
    search = a_search(1)

    def objective(trial: optuna.Trial) -> float:
        chosen = suggest(search, trial)
        job = Job(chosen, 0.0, busy=False)
        if forked:
            child = multiprocessing.get_context("fork").Process(target=job.do, args=(Progress(),))
            child.start()
            child.join()
        else:
            job.do(Progress())
        return float(chosen["penalty.weight"])

    study = optuna.load_study(study_name="bare", storage=url, sampler=optuna.samplers.RandomSampler())
    study.optimize(objective, n_trials=trials)


def fresh(url: str | None) -> tuple[Place, str]:
    """Return an empty storage and its address."""
    folder = Path(tempfile.mkdtemp())
    if url is not None:
        import psycopg

        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
    where = place(url, folder)
    return where, where.url.render_as_string(hide_password=False)


def throughput(name: str, url: str | None, trials: int, rounds: int) -> list[tuple[str, ...]]:
    """Return trivial trials per second, two processes per implementation, interleaved."""
    rates: dict[str, float] = {}
    ways: dict[str, Callable[[Place, str], float]] = {
        "ours": lambda where, address: searched(where, trials, 2),
        "bare Optuna, a process per trial": lambda where, address: bare(address, trials, 2, forked=True),
        "bare Optuna, trials in its two processes": lambda where, address: bare(address, trials, 2, forked=False),
    }
    for _ in range(rounds):
        for way, run in ways.items():
            rates[way] = max(rates.get(way, 0.0), trials / run(*fresh(url)))
    ours = rates.pop("ours")
    peer = rates["bare Optuna, a process per trial"]
    bound(f"trivial trials, {name}, to Optuna with a process per trial", ours / peer, 0.5, least=True)
    what = f"trivial trials per second, {name}, 2 workers"
    return [(what, f"{ours:.0f}", f"{way}: {rate:.0f}", f"{ours / rate:.2f} ×") for way, rate in rates.items()]


def bridge(trials: int) -> list[tuple[str, ...]]:
    """Time the driver's part of a trial's record for MLflow; the mirror is another process."""
    folder = Path(tempfile.mkdtemp())
    search = a_search(trials)
    records = Records(Project(folder, folder), search, identity=identity_of(trials), name="bench")
    seconds = []
    for number in range(trials):
        facts = {PROVENANCE: {"digests": ["0" * 64], "seconds": 1.0, "commit": "0" * 40}}
        trial = optuna.trial.create_trial(value=1.0, user_attrs=facts)
        trial.number = number
        began = time.perf_counter()
        records.trial(trial)
        seconds.append(time.perf_counter() - began)
    middle = 1e3 * median(seconds)
    bound("a trial's record for MLflow", middle, 5, "ms")
    return [("a trial's record for MLflow (middle)", f"{middle:.1f} ms", "", "5 ms")]


def large(trials: int) -> list[tuple[str, ...]]:
    """Time one proposal by TPE and one status, for a study with `trials` trials."""
    where, _ = fresh(None)
    search = a_search(trials + 10, "tpe")
    memory = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    for _ in range(trials):
        trial = memory.ask()
        memory.tell(trial, suggest(search, trial)["penalty.weight"])
    with held_study(search, identity_of(trials), where, steps=1) as one:
        one.study.add_trials(memory.trials)
        began = time.perf_counter()
        status(one.study, search)
        seen = time.perf_counter() - began
        asked = []
        for number in range(trials, trials + 5):
            began = time.perf_counter()
            asking = copy.copy(one.study)  # as the driver does
            asking.sampler = sampler(search, number)
            suggest(search, trial := asking.ask())
            asked.append(time.perf_counter() - began)
            one.study.tell(trial, 1.0)
    middle = sorted(asked)[2]
    bound(f"{trials:,} trials: a proposal", 1e3 * middle, 200, "ms")
    bound(f"{trials:,} trials: status", seen, 5, "s")
    return [
        (f"{trials:,} trials: a proposal by TPE (middle of 5)", f"{1e3 * middle:.0f} ms", "", "200 ms"),
        (f"{trials:,} trials: status", f"{seen:.2f} s", "", "5 s"),
    ]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", metavar="URL", help="a database to use; it is emptied")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--large", type=int, default=10_000)
    parser.add_argument("--smoke", action="store_true", help="test the script: few trials, each once")
    chosen = parser.parse_args()
    rounds, seconds = 3, 2.0
    if chosen.smoke:
        chosen.trials, chosen.large, rounds, seconds = 2, 20, 1, 0.05
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows: list[tuple[str, ...]] = []
    repeat: Callable[[Callable[[], float]], float] = lambda call: min(call() for _ in range(rounds))  # noqa: E731
    four = repeat(lambda: searched(fresh(None)[0], 4, 4, 1.0))
    bound("4 trials of one second, 4 workers", four, 2, "s")
    rows.append(("4 trials of one second, 4 workers", f"{four:.2f} s", "", "2 s"))
    rows += throughput("SQLite", None, chosen.trials, rounds)
    if chosen.postgresql:
        rows += throughput("PostgreSQL", chosen.postgresql, chosen.trials, rounds)
    one = searched(fresh(None)[0], 8, 1, seconds, busy=True)
    two = searched(fresh(None)[0], 8, 2, seconds, busy=True)
    bound("2 workers against 1, trials that keep a core busy", one / two, 1.8, least=True)
    rows.append(
        (
            f"8 trials that keep one core busy for {seconds:g} s: 2 workers against 1",
            f"{two:.1f} s",
            f"{one:.1f} s",
            f"{one / two:.2f} ×",
        )
    )
    rows += bridge(chosen.trials)
    rows += large(chosen.large)
    print(table("A search beside its trials", ("what", "ours", "beside", "ratio or bound"), rows))
    conclude(smoke=chosen.smoke)


if __name__ == "__main__":
    main()
