"""Compare two runs, or sets of runs in pairs: tables, told on a screen, as JSON, or on a page by the same views."""

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base import built_in, paths
from isoscope.base.errors import InputError, first_line
from isoscope.base.kind import kind
from isoscope.platform.figures.pictures import Picture, pictures
from isoscope.platform.outputs import chosen_checkpoint
from isoscope.platform.report.checkpoint_page import page
from isoscope.platform.results.run_differences import compared, points, predictions, unequal_files
from isoscope.platform.runs.differences import Difference, differences, values_that_differ
from isoscope.platform.runs.lines import plain
from isoscope.platform.runs.named import NamedRun, named
from isoscope.platform.stages.page_folder import page_folder, write_page

SHOWN, WIDE, FILES = 8, 120, 6  # rows of a table, letters of a line, and names in a line, on one screen
UNKNOWN = "the environment of a run is not known, because its record is not here: it was not compared"
Made = dict[str, pd.DataFrame]


def diff(a: str, b: str, project: paths.Project, confidence: float) -> Made:
    """Return tables of how the runs differ that two words name, each with the column `pair`.

    - `pairs`: digests a and b, number of `files`, names of those that are `unequal`.
    - `identity`: see `runs.differences`. `notes`: what is not compared, and why.
    - of unequal pairs: those of `run_differences`, weights and hidden states.

    Raises `InputError` for words that name no runs, or runs without pairs.
    """
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        (level, before), (of, after) = (
            named(_opened(*word), project, word[1]) for word in ((a, Path(one)), (b, Path(other)))
        )
        if level != of or not before.keys() & after.keys():
            raise InputError(f"{a} ({level}) and {b} ({of}) have no runs of equal names to compare")
        alone = {key: f"only in {a if key in before else b}" for key in before.keys() ^ after.keys()}
        made = {key: _pair(before[key], after[key], project) for key in before if key in after}
    made |= {key: {"notes": pd.DataFrame({"note": [said]})} for key, said in sorted(alone.items())}
    names = dict.fromkeys(name for tables in made.values() for name in tables)
    parts = {name: [(key.strip("."), one[name]) for key, one in made.items() if name in one] for name in names}
    full = {name: pd.concat([table.assign(pair=key) for key, table in tables]) for name, tables in parts.items()}
    return full | ({"comparison": compared(full["points"], confidence)} if level != "run" and "points" in full else {})


def _opened(word: str, folder: Path) -> str:
    """Return a word that names runs; of a bundle, or of a path in it, the place where it is opened in `folder`."""
    archive, _, path = word.partition(":")
    if not archive.endswith(".zip"):
        return word
    import_module("isoscope.platform.stages.bundle").unpack(Path(archive), folder / "bundle")
    return str(folder / "bundle" / path)


# Of two runs; of equal outputs, their identity alone; of checkpoints, weights alone.
def _pair(a: NamedRun, b: NamedRun, project: paths.Project) -> Made:
    unequal, alone, files = unequal_files(a.folder, b.folder)
    about = {"a": [a.run and a.run.digest], "b": [b.run and b.run.digest], "files": files, "unequal": [unequal]}
    more = f" and {len(alone) - FILES} more" if len(alone) > FILES else ""
    notes = [f"one side lacks {', '.join(alone[:FILES])}{more}"] if alone else []
    found, science = {"pairs": pd.DataFrame(about)}, import_module(built_in.DIFFERENCES)
    parts: list[Callable[[], Made]] = [lambda: {"weights": science.weights(_weights(a), _weights(b))}]
    if a.run and b.run:
        (data, states), (_, others) = a.beside(a.run), b.beside(b.run)
        made = [one.record.author.environment for one in (a, b) if one.record and one.record.author]
        notes += [UNKNOWN] * (len(made) < 2)
        around = values_that_differ(made[0], made[1], "environment") if len(made) > 1 else ()
        of = [
            *values_that_differ({"seed": a.run.seed}, {"seed": b.run.seed}),
            *differences(project, a.run, b.run),
            *around,
        ]
        found["identity"] = pd.DataFrame(of, columns=Difference._fields)
        parts.append(lambda: {"points": points(a.folder, b.folder)})
        parts.append(lambda: predictions(a.folder, b.folder, data))
        parts += [lambda: {"representations": science.representations(states, others)}] * bool(states and others)
    for part in parts if unequal else ():
        try:
            found |= part()
        except (InputError, OSError, ValueError, KeyError) as error:  # of a damaged file, its part alone is missing
            notes.append(first_line(error))
    return found | ({"notes": pd.DataFrame({"note": [*dict.fromkeys(notes)]})} if notes else {})


# The checkpoint whose test scores a run has.
def _weights(one: NamedRun) -> Path:
    return (one.run and chosen_checkpoint(one.folder)) or one.folder


def told(a: str, b: str, tables: Made, *, every: bool, out: Path | None) -> tuple[dict[str, Any], str, bool]:
    """Return what is found as data of JSON, as text for a screen (all rows if `every`), and whether it is an alarm.

    Alarm: runs of one digest whose outputs differ. `out`: a folder for the tables, the JSON, the figures and a page.
    """
    shown = [one for one in pictures(kind("diff").views, tables) if one.lines]
    pairs = tables["pairs"].assign(unequal=tables["pairs"]["unequal"].map(", ".join))
    unequal = pairs[pairs["unequal"] != ""]
    same = unequal[unequal["a"].notna() & (unequal["a"] == unequal["b"])]
    known = "notes" not in tables or not (tables["notes"]["note"] == UNKNOWN).any()
    equal = f"equal in every bit ({pairs['files'].sum():,} files)"
    answer = [
        *(f"ALARM: two outputs of run {one.a[:12]} differ: {one.unequal:.200}" for one in same.itertuples()),
        f"A: {a}; B: {b}: {f'{len(unequal):,} of {len(pairs):,} pairs of outputs differ' if len(unequal) else equal}",
        *["identity: no part differs: parameters, data, code, plug-ins, inputs" + ", environment" * known]
        * ("identity" in tables and not len(tables["identity"])),
    ]
    rows = {one.name: one.table[0] for one in shown} | {"pairs": pairs}
    data = {name: one.astype(object).where(one.notna(), None).to_dict("records") for name, one in rows.items()}
    found: dict[str, Any] = plain({"alarm": bool(len(same)), "answer": answer, "out": out and str(out), **data})
    lines = [*answer, *(line for one in shown for line in _lines(one, every))]
    if out is not None:
        facts = {"answer": answer, "given": {"A": a, "B": b}, "text": "", "warnings": [], "notes": [], "truncated": {}}
        digests = {"checkpoints": {side: " ".join(filter(None, pairs[side.lower()])) for side in "AB"}}
        values = {name: one.astype(dict.fromkeys({"old", "new"} & {*one}, str)) for name, one in tables.items()}
        with page_folder(out, "diff"):
            write_page(out, "diff", facts | digests, values, {"diff.json": found})
            lines.append(f"page: {page(out)}")
    return found, "\n".join(lines), bool(len(same))


# Caption, heads and rows of a table in columns, cut to a screen unless `every`.
def _lines(picture: Picture, every: bool) -> list[str]:
    kept = picture.lines if every else picture.lines[: SHOWN + 1]
    widths = [max(len(cell) for cell, _ in column) for column in zip(*kept, strict=True)]
    rows = ["  ".join(f"{cell:{wide}}" for (cell, _), wide in zip(row, widths, strict=True)) for row in kept]
    more = [f"  and {len(picture.lines) - len(kept):,} more: --all"] * (len(kept) < len(picture.lines))
    return ["", picture.caption, *(f"  {row if every else row[:WIDE]}".rstrip() for row in rows), *more]
