"""Runs as the report shows them: identity from the tables, circumstances from the records, a search in MLflow."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from isoscope.mirror.fields import DIGEST
from isoscope.outputs import Trained
from isoscope.runs.lines import RunRecord
from isoscope.runs.record import read
from isoscope.studies.tables import Tables

SHORT = 12
"""Digits of a digest that a page shows."""


class RunRow(NamedTuple):
    """One run, and how it came about where its record is at hand."""

    run: Trained
    status: str
    commit: str | None
    dirty: bool | None
    seconds: float | None
    """Time at work, over all attempts."""
    attempts: int
    device: str | None
    """Device and, on a CPU, threads of the attempt that finished the run."""
    changed: bool
    """Whether attempts of the run differ in what they ran on."""
    accepted: tuple[str, ...]
    """Later versions of the code that give the run's golden trace (`isoscope accept`)."""
    search: str
    """What to paste into MLflow's search field."""
    link: str | None
    """That search in MLflow, where a server and the study's experiment are known."""

    @property
    def short(self) -> str:
        """The first digits of the digest."""
        return self.run.digest[:SHORT]


def read_records(folder: Path, studies: Sequence[Tables]) -> dict[str, RunRecord]:
    """The records in `folder` of the runs that `studies` show, by digest; runs made elsewhere have none."""
    digests = {run.digest for study in studies for run in study.runs}
    found = {digest: folder / f"{digest}.jsonl" for digest in sorted(digests)}
    return {digest: read(path) for digest, path in found.items() if path.is_file()}


def run_row(run: Trained, record: RunRecord | None, *, tracking_uri: str | None, experiment: str | None) -> RunRow:
    """A run beside its record; `experiment` is the id of its study's experiment in MLflow."""
    author = record.author if record else None
    git = author.git if author else {}
    return RunRow(
        run,
        status=record.status.lower() if record else "no record here",
        commit=git.get("commit"),
        dirty=git.get("dirty"),
        seconds=working_seconds(record) if record else None,
        attempts=len(record.attempts) if record else 0,
        device=_device(author.environment) if author else None,
        changed=len({_device(attempt.environment) for attempt in record.attempts}) > 1 if record else False,
        accepted=tuple(item.code[:SHORT] for item in record.accepted) if record else (),
        search=pasted(run.digest),
        link=link(run.digest, tracking_uri, experiment),
    )


def _device(environment: Mapping[str, Any]) -> str | None:
    device, threads, processes = (environment.get(name) for name in ("device", "threads", "processes"))
    if device == "cpu" and threads:
        device = f"{device}, {threads} thread{'s' * (threads != 1)}"
    return f"{device}, {processes} processes" if (processes or 1) > 1 else device


def working_seconds(record: RunRecord) -> float | None:
    """Seconds from each attempt's start to its last line, added up: the pause before a resume does not count."""
    if record.restored or not record.attempts:
        return None
    times = [line.t for part in (record.metrics, record.checkpoints, record.datasets) for line in part]
    times = sorted([*times, record.end.t] if record.end else times)
    starts = [attempt.t for attempt in record.attempts]
    total = 0
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        during = [t for t in times if t >= start and (following is None or t < following)]
        total += (during[-1] - start) if during else 0
    return total / 1000


def server(tracking_uri: str | None) -> str | None:
    """Address of the MLflow server at `tracking_uri` for a page to link to, without user and password.

    None where a browser cannot open it (a database, a folder).
    """
    parts = urlsplit(tracking_uri or "")
    if parts.scheme not in ("http", "https"):
        return None
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/")))


def pasted(digest: str) -> str:
    """What to paste into MLflow's search field to find a run."""
    return f"tags.`{DIGEST}` LIKE '{digest[:SHORT]}%'"


def link(digest: str, tracking_uri: str | None, experiment: str | None) -> str | None:
    """Address of the search for a run; None without a server that a browser opens, or its experiment's id there."""
    address = server(tracking_uri)
    if address is None or experiment is None:
        return None
    # The tab `runs` must be named: MLflow 3 sends the bare experiment to its overview and drops the search.
    search = quote(f"tags.`{DIGEST}` = '{digest}'", safe="")
    return f"{address}/#/experiments/{quote(experiment, safe='')}/runs?searchFilter={search}"


def plugins(rows: Sequence[RunRow]) -> Mapping[tuple[str, str], list[RunRow]]:
    """(File, sha256) of every file of the user's own → the runs made with it."""
    found: dict[tuple[str, str], list[RunRow]] = {}
    for row in rows:
        for item in sorted(row.run.plugins.items()):
            found.setdefault(item, []).append(row)
    return found
