"""What a report lacks of its params.yaml: runs that are missing, and runs with other parameters."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from isoscope.platform.config.project import Study
from isoscope.platform.config.tree import differing
from isoscope.platform.figures.numbers import count
from isoscope.platform.results.study_tables import Tables
from isoscope.platform.runs.lines import RunRecord

Cell = tuple[str, int]
"""Arm and seed."""
SHOWN = 3


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
        every = ", ".join(sorted({name for names in changed.values() for name in names})[:SHOWN])
        found += [f"{one} ({every})" for one in _listed("has other parameters", "have other parameters", changed)]
    return found


def _listed(one: str, several: str, cells: Collection[Cell]) -> Iterator[str]:
    """Yield a sentence that names the first of some cells; nothing without cells."""
    if cells:
        names = ", ".join(f"{arm} seed {seed}" for arm, seed in sorted(cells)[:SHOWN])
        more = f" and {len(cells) - SHOWN} more" * (len(cells) > SHOWN)
        yield f"{count(len(cells), 'run')} {one if len(cells) == 1 else several}: {names}{more}"


def _changed(record: RunRecord | None, now: Mapping[str, Any]) -> list[str]:
    """Return the parameters of a run that params.yaml has with another value; none without a record."""
    return [*differing(record.run.params, now)] if record is not None and record.run is not None else []
