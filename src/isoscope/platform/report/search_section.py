"""Read a search's results for the page: best trials, parameter importances, figures."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base.atomic_files import altered, unsealed
from isoscope.base.paths import CONFIRMED, LARGE_TABLES
from isoscope.platform.config.declared import title as title_of
from isoscope.platform.config.tree import as_text
from isoscope.platform.figures.numbers import count
from isoscope.platform.figures.origin import packed
from isoscope.platform.report.drawing import Drawing, numbered, read_rows, reading
from isoscope.platform.report.inline_svg import inline
from isoscope.platform.report.runs import SHORT, link, pasted
from isoscope.platform.report.sentences import confirmed

CAPTIONS = {
    "history": (
        "Optimisation history",
        "A dot is a complete trial; the line is the best value so far among trials that break no constraint; ring: the"
        " best or suggested trial.",
    ),
    "front": (
        "Pareto front",
        "A dot is a complete trial. The line (of more than two objectives: the inner dots) is the front: no trial beats"
        " a trial of the front in all objectives. Ring: the suggested trial, farthest from the line between the front's"
        " ends (none if trials are equally far, as two always are); this is not yet a finding.",
    ),
    "importances": (
        "Parameter importances",
        "Dot: the share of variance over the search space that a parameter alone explains (fANOVA), by architecture."
        " Line: the middle 95 % over resampled trials. An architecture needs enough complete trials.",
    ),
    "slice": (
        "Slices",
        "The objective by each parameter, over the trials that have it. Other parameters vary at the same time, so"
        " this isolates no effect.",
    ),
    "intermediate": (
        "Intermediate values",
        "A line is the values that a trial reported, step by step. A line that ends early is a pruned trial.",
    ),
    "pruning": (
        "Saved by pruning",
        "Number of complete and pruned trials that ran each step; the area above the line: steps saved by pruning.",
    ),
}
"""Name → title and caption, in the order on the page."""


def caption(name: str) -> tuple[str, str]:
    """Return a figure's title and caption; equal for `slice` and `slice-2`. Raises `KeyError` for an unknown name."""
    return CAPTIONS[name.partition("-")[0]]


STUDY, TRIALS, IMPORTANCES, BEST = "study.json", "trials.parquet", "importances.parquet", "best.yaml"
SHOWN = {"importances": "importances", "intermediate": "reported", "pruning": "reported"}
"""Figure → table of its numbers; other figures show `trials`."""
STORED = "trial"
"""The column of `trials` with JSON for `isoscope search`; the others are for readers."""
MOST = 10
"""How many trials the page lists for a single objective; for several, it lists the whole front."""
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}


def read_search(
    folder: Path,
    *,
    tracking_uri: str | None,
    experiments: Mapping[str, str],
    homes: Mapping[str, str],
    chapter: int,
) -> dict[str, Any] | None:
    """Read what `isoscope search` wrote, for its template. Return None if it has not run or has no trials.

    `tracking_uri` and `experiments` (name → id) as for the page; with both, a trial's runs are links. `homes`: digest →
    experiment of the runs that a study has published; the others are in the search's. Raises `InputError` for damaged
    files.
    """
    if not (folder / STUDY).is_file():
        return None
    with reading(folder, "search"):
        study = json.loads((folder / STUDY).read_text("utf-8"))
        counts = study["counts"]
        states = [f"{number:,} {STATES.get(state, state)}" for state, number in counts.items() if number]
        if not states:
            return None
        if wrong := altered(folder):
            raise ValueError(wrong)
        one, figures = len(study["objectives"]) == 1, (folder / "figures").glob("*.svg")
        rows = read_rows(folder / TRIALS)
        parts = {
            f"trial:{row['number']}": _told(row, study["objectives"]) for row in rows if row["state"] == "COMPLETE"
        }
        stops = {f"trial:{number}" for number in study["front"]}
        tables = {
            name: packed(pd.read_parquet(folder / f"{name}.parquet").drop(columns=STORED, errors="ignore"))
            for name in ("trials", *dict.fromkeys(SHOWN.values()))
        }

        def address(run: str) -> str | None:
            return link(run, tracking_uri, experiments.get(homes.get(run, study["experiment"])))

        drawings = [
            _drawing(path, tables, parts, stops, [*study["objectives"]]) for path in sorted(figures, key=_place)
        ]
        return {
            **{name: study[name] for name in ("name", "digest", "saved")},
            "objectives": {title_of(name): direction for name, direction in study["objectives"].items()},
            "short": study["digest"][:SHORT],
            "data": study["identity"]["inputs"],
            "counts": f"{count(sum(counts.values()), 'trial')}: {', '.join(states)}",
            "broken": sum(row["state"] == "COMPLETE" and not row["feasible"] for row in rows),
            "constraints": {title_of(name): _text(value) for name, value in study["constraints"].items()},
            "word": "best" if one else "suggested",
            "chosen": study["best"] if one else study["knee"],
            "best_params": {name: _text(value) for name, value in (study["best_params"] or {}).items()},
            "overlay": (folder / BEST).read_text("utf-8") if (folder / BEST).is_file() else None,
            "trials": _trials(rows, study, address),
            "confirmed": _confirmed(folder.parent / CONFIRMED.name, study["digest"]),
            "importances": [row | {"objective": title_of(row["objective"])} for row in read_rows(folder / IMPORTANCES)],
            "drawings": numbered(drawings, chapter),
        }


def _confirmed(file: Path, digest: str) -> dict[str, Any] | None:
    """Return what `isoscope search confirm` found last: trial, seeds, sentences; None if it was of another search."""
    if not file.exists():
        return None
    with reading(file, "search confirm", "run it again, or delete the file"):
        known = unsealed(file.read_text("utf-8"))
        said = [confirmed(_with_numbers(row), _with_numbers(known["believed"])) for row in known["rows"]]
        found = {"trial": known["trial"], "seeds": ", ".join(map(str, known["seeds"])), "findings": said}
        return found if known["digest"] == digest else None


def _with_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its numbers, of which strict JSON has those that are not finite as text."""
    return {name: float(one) if one in ("NaN", "Infinity", "-Infinity") else one for name, one in row.items()}


def _trials(
    rows: Sequence[Mapping[str, Any]], study: Mapping[str, Any], address: Callable[[str], str | None]
) -> list[dict[str, Any]]:
    """Return the front; for a single objective, the best trials that break no constraint. Best first."""
    places = [f"objective/{name}" for name in study["objectives"]]
    shown = [row for row in rows if row["state"] == "COMPLETE" and row["feasible"]]
    if front := len(places) > 1:
        shown = [row for row in rows if row["number"] in study["front"]]
    sign = -1 if next(iter(study["objectives"].values())) == "maximise" else 1
    shown.sort(key=lambda row: (sign * row[places[0]], row["number"]))
    return [
        {
            **{name: row[name] for name in ("number", "seconds")},
            "values": [row[place] for place in places],
            "params": _params(row),
            "runs": [{"short": one[:SHORT], "search": pasted(one), "link": address(one)} for one in row["digests"]],
        }
        for row in shown[: None if front else MOST]
    ]


def _params(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name[6:]: value for name, value in row.items() if name.startswith("param/") and value is not None}


def _told(row: Mapping[str, Any], objectives: Iterable[str]) -> str:
    """Return a complete trial's number, objectives and parameters as text."""
    values = {title_of(name): row[f"objective/{name}"] for name in objectives} | _params(row)
    texts = [f"{name} {f'{value:.4g}' if isinstance(value, float) else value}" for name, value in values.items()]
    return f"Trial {row['number']}{'' if row['feasible'] else ' (breaks a constraint)'}: {'; '.join(texts)}"


def _drawing(
    path: Path,
    tables: Mapping[str, bytes],
    parts: Mapping[str, str],
    stops: Collection[str],
    objectives: Sequence[str],
) -> Drawing:
    title, text = caption(path.stem)
    kind, _, number = path.stem.partition("-")
    if kind == "slice" and len(objectives) > 1:
        title = f"{title}: {title_of(objectives[int(number or 1) - 1])}"
    key, name = f"search-{path.stem}", SHOWN.get(path.stem, "trials")
    picture = inline(path.read_text("utf-8"), key=key, title=title, description=text, parts=parts, stops=stops)
    return Drawing(picture, f"{title}. {text}", key, tables={name: tables[name]}, beside=LARGE_TABLES.name)


def _place(path: Path) -> tuple[int, int]:
    kind, _, number = path.stem.partition("-")
    return list(CAPTIONS).index(kind) if kind in CAPTIONS else len(CAPTIONS), int(number or 1)


def _text(value: Any) -> str:
    """Return a value as people read it: numbers with three digits; `best.yaml` has all of them."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return as_text(value)
