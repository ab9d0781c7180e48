"""The runs of a report: rows of its table, their settings, and what is missing or older than params.yaml."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isoscope.platform.config.project import Study
from isoscope.platform.config.tree import differing
from isoscope.platform.figures.numbers import count
from isoscope.platform.mirror.browsing import experiment as experiment_of
from isoscope.platform.mirror.browsing import runs_page
from isoscope.platform.mirror.fields import DIGEST, address_parts, without_user
from isoscope.platform.outputs import Trained
from isoscope.platform.results.study_tables import Tables
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.record import read, working_seconds

SHORT = 12
"""How many digits of a digest a page shows."""


RunRow = Mapping[str, Any]
"""A run of the table, with the circumstances that its record tells; see `run_row`."""


def read_records(folder: Path, studies: Sequence[Tables]) -> dict[str, RunRecord]:
    """Read the records in `folder` of the runs of `studies`, by digest. Runs made elsewhere have no record."""
    digests = {run.digest for study in studies for run in study.runs}
    found = {digest: folder / f"{digest}.jsonl" for digest in sorted(digests)}
    return {digest: read(path) for digest, path in found.items() if path.is_file()}


def run_row(run: Trained, record: RunRecord | None, *, tracking_uri: str | None, experiment: str | None) -> RunRow:
    """Return the row of a run. `experiment`: id of its experiment in MLflow (`home`).

    - `device` is that of the attempt that finished the run, on a CPU with its threads; `changed` says whether attempts
      used different devices. `seconds`: working time over all attempts.
    - `accepted`: later versions of the code that reproduce the run's golden trace (`isoscope accept`).
    - `search`: text to paste into MLflow's search field; `link`: address of that search, None unless a server and the
      experiment are known.
    """
    known = record or RunRecord()
    git, environment = (known.author.git, known.author.environment) if known.author else ({}, {})
    return {
        "run": run,
        "short": run.digest[:SHORT],
        "status": record.status.lower() if record else "no record here",
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "seconds": working_seconds(known),
        "attempts": len(known.attempts),
        "device": _device(environment),
        "changed": len({_device(attempt.environment) for attempt in known.attempts}) > 1,
        "accepted": [item.code[:SHORT] for item in known.accepted],
        "search": pasted(run.digest),
        "link": link(run.digest, tracking_uri, experiment),
    }


def _device(environment: Mapping[str, Any]) -> str | None:
    device, threads, processes = (environment.get(name) for name in ("device", "threads", "processes"))
    if device == "cpu" and threads:
        device = f"{device}, {threads} thread{'s' * (threads != 1)}"
    return f"{device}, {processes} processes" if (processes or 1) > 1 else device


def server(tracking_uri: str | None) -> str | None:
    """Return the address of the MLflow server at `tracking_uri`, without user and password.

    None if a browser cannot open it (a database, a folder, a malformed address).
    """
    parts = address_parts(tracking_uri or "")
    return without_user(parts).geturl().rstrip("/") if parts and parts.scheme in ("http", "https") else None


def pasted(digest: str) -> str:
    """Return the text that finds a run in MLflow's search field."""
    return f"tags.`{DIGEST}` LIKE '{digest[:SHORT]}%'"


def made_of(rows: Sequence[RunRow], inputs: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Return what results are made of: runs, their commits, and data with their hashes."""
    return {
        "rows": rows,
        "commits": sorted(
            {f"{row['commit'][:10]}{' with changes' * bool(row['dirty'])}" for row in rows if row["commit"]}
        ),
        "unknown_commit": any(row["commit"] is None for row in rows),
        "data": {path: md5 for of in inputs for path, md5 in of.items() if path.startswith("data/")},
    }


def home(record: RunRecord | None, study: str) -> str:
    """Return the name of a run's experiment in MLflow: of the study that began it; without a record, of `study`."""
    return experiment_of(record, record.run) if record and record.run else study


def by_arm(tracking_uri: str | None, experiment: str | None) -> str | None:
    """Return the address of a study's grouped runs; None without an http(s) server or the experiment's id."""
    address = server(tracking_uri)
    return None if address is None or experiment is None else runs_page(address, experiment)


def link(digest: str, tracking_uri: str | None, experiment: str | None) -> str | None:
    """Return the address of the search for a run; None without an http(s) server or the experiment's id."""
    address = server(tracking_uri)
    if address is None or experiment is None:
        return None
    return runs_page(address, experiment, search=f"tags.`{DIGEST}` = '{digest}'")


def plugins(rows: Sequence[RunRow]) -> Mapping[tuple[str, str], list[RunRow]]:
    """Return (file, sha256) of every plugin → the runs that used it."""
    found: dict[tuple[str, str], list[RunRow]] = {}
    for row in rows:
        for item in sorted(row["run"].plugins.items()):
            found.setdefault(item, []).append(row)
    return found


MAIN = {
    "model.encoder.checkpoint": "checkpoint",
    "model.encoder.family": "family",
    "model.encoder.layers": "layers",
    "model.encoder.hidden_size": "width",
    "model.encoder.heads": "heads",
    "training.epochs": "epochs",
    "training.batch_size": "examples per update",
    "training.learning_rate": "learning rate",
}
"""Settings that the heading names → what it calls them."""


def settings(runs: Sequence[Trained], records: Mapping[str, RunRecord]) -> dict[str, Any] | None:
    """Return the settings of a study's runs that have a record; None if none has.

    - `main`: the settings `MAIN` as text, where all runs share them.
    - `shared`: name → value, as text.
    - `arms`, `differ`: the arms, and name → a value per arm (a dash: the arm has no such setting).
    """
    known = {run.arm: record.run.params for run in runs if (record := records.get(run.digest)) and record.run}
    if not known:
        return None
    names = list(dict.fromkeys(name for params in known.values() for name in params))
    values = {name: [_text(params[name]) if name in params else "–" for params in known.values()] for name in names}
    shared = {name: texts[0] for name, texts in values.items() if len(set(texts)) == 1}
    main = [f"{called} {shared[name]}" for name, called in MAIN.items() if name in shared]
    differ = {name: texts for name, texts in values.items() if name not in shared}
    return {"main": ", ".join(main), "shared": shared, "arms": [*known], "differ": differ}


def _text(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


Cell = tuple[str, int]
"""Arm and seed."""
NAMED = 3


def lacking(
    tables: Tables,
    study: Study,
    arms: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, RunRecord],
) -> list[str]:
    """Return what a study's part of the report lacks, a sentence each; empty if it is complete.

    `arms`: arm → its parameters in params.yaml, by dotted name.
    """
    there = {(run.arm, run.seed): run.digest for run in tables.runs}
    asked = {(arm, seed) for arm in arms for seed in study.seeds}
    found = [
        *_listed("is missing", "are missing", asked - there.keys()),
        *_listed("is not in params.yaml", "are not in params.yaml", there.keys() - asked),
    ]
    changed = {
        cell: names
        for cell in sorted(asked & there.keys())
        if (names := _changed(records.get(there[cell]), arms[cell[0]]))
    }
    if changed:
        every = ", ".join(sorted({name for names in changed.values() for name in names})[:NAMED])
        found += [f"{one} ({every})" for one in _listed("has other parameters", "have other parameters", changed)]
    return found


def _listed(one: str, several: str, cells: Collection[Cell]) -> Iterator[str]:
    """Yield a sentence that names the first of some cells; nothing without cells."""
    if cells:
        names = ", ".join(f"{arm} seed {seed}" for arm, seed in sorted(cells)[:NAMED])
        more = f" and {len(cells) - NAMED} more" * (len(cells) > NAMED)
        yield f"{count(len(cells), 'run')} {one if len(cells) == 1 else several}: {names}{more}"


def _changed(record: RunRecord | None, now: Mapping[str, Any]) -> list[str]:
    """Return the parameters of a run that params.yaml has with another value; none without a record."""
    return [*differing(record.run.params, now)] if record is not None and record.run is not None else []
