"""Compare results with published numbers, which each kind keeps in its `published.yaml`: verdicts, and their text."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from isoscope.base import kind as kinds
from isoscope.base.errors import InputError
from isoscope.base.kind import Kind
from isoscope.base.paths import TABLES
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.figures.numbers import NOTHING
from isoscope.platform.results.study_tables import StoredTables
from isoscope.platform.statistics.paired import NO_VERDICT, Verdict

FILE = Path("published.yaml")
PASS, FAIL, UNDERPOWERED, ALONE, INDISTINCT = "pass", "fail", "under-powered", "ours alone", "indistinct"
VERDICTS = (PASS, FAIL, UNDERPOWERED, INDISTINCT, ALONE, NO_VERDICT)


class Reproduced(NamedTuple):
    """A comparison with published numbers."""

    cells: list[dict[str, Any]]
    """Its rows, with verdict and reason."""
    head: list[str]
    texts: list[list[str]]
    """What is shown of each row below the `head`."""
    notes: list[str]
    failed: bool
    """Whether a row that decides failed."""

    @property
    def text(self) -> str:
        """The comparison as lines for a terminal, with the count of each verdict."""
        if not self.cells:
            return "\n".join(self.notes)
        reasons = [*dict.fromkeys(str(cell["reason"]) for cell in self.cells)]
        alike = len(reasons) == 1 < len(self.cells)
        ends = [cell["verdict"] if alike else f"{cell['verdict']}: {cell['reason']}" for cell in self.cells]
        table = [[*texts, end] for texts, end in zip([self.head, *self.texts], ["verdict", *ends], strict=True)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in table]
        verdicts = [cell["verdict"] for cell in self.cells]
        counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts]
        return "\n".join(
            [*lines, *([f"{reasons[0]}."] if alike and reasons[0] else []), *self.notes, ", ".join(counts)]
        )


@cache
def published(folder: Path) -> Mapping[str, Any]:
    """Return the published numbers in the folder of a kind: papers, values, settings; empty if it has none."""
    return read_yaml(folder, FILE) if (folder / FILE).is_file() else {}


def papers(remakes: Iterable[str | None]) -> dict[str, Mapping[str, str | None]]:
    """Return the papers that figures follow, by the names in `View.remakes`: each with its title and address."""
    texts = [text for text in remakes if text]
    folders = (kinds.kind(name).folder for name in kinds.names())
    every = (found for folder in folders for found in published(folder).get("papers", {}).items())
    return {name: paper for name, paper in every if any(text.startswith(name) for text in texts)}


def agrees(difference: float, half: float, tolerance: float) -> Verdict:
    """Return the verdict on "our number is the published number", of a difference with an interval ± `half`.

    - *pass*: the whole interval is within the tolerance.
    - *fail*: the whole interval is outside the tolerance.
    - *under-powered*: neither.
    """
    if abs(difference) - half > tolerance:
        return Verdict(FAIL, f"the whole interval is more than {tolerance:.2g} from the published value")
    if abs(difference) + half <= tolerance:
        return Verdict(PASS, f"the whole interval is within {tolerance:.2g} of the published value")
    return Verdict(UNDERPOWERED, f"the interval does not decide whether it is within {tolerance:.2g}")


def reproduced(cells: Sequence[Mapping[str, Any]], shown: Mapping[str, Any]) -> Reproduced:
    """Return a comparison, from its rows with a verdict and a reason each.

    `shown`, from `published.yaml`: `columns` (heading → template of a row's text), `nothing` (said without rows), and
    `notes` (column → text below, if a row has a number there). A row whose `decides` is false cannot fail.
    """
    rows = [{name: None if value != value else value for name, value in cell.items()} for cell in cells]
    if not rows:
        return Reproduced([], [], [], [str(shown["nothing"])], False)
    texts = [[_text(one, row) for one in shown["columns"].values()] for row in rows]
    notes = [text for column, text in shown.get("notes", {}).items() if any(row[column] is not None for row in rows)]
    failed = any(row["verdict"] == FAIL and row.get("decides", True) for row in rows)
    return Reproduced(rows, [*shown["columns"]], texts, notes, failed)


def of_kind(kind: Kind, tables: Mapping[str, Any]) -> Reproduced | None:
    """Return the comparison of a study's tables with the published numbers of its kind; None if it has none."""
    known = published(kind.folder)
    if known.get("table") not in tables:
        return None
    return reproduced(tables[known["table"]].to_dict("records"), known)


def reproduced_by(kind: str, folder: Path) -> Reproduced:
    """Return the comparison with published numbers of the study in `folder`, for `isoscope reproduce`.

    Raises `InputError` if the study was not analysed, or by an earlier version, or if nothing was published.
    """
    found = kinds.kind(kind)
    known = published(found.folder)
    if "table" not in known:
        raise InputError(f"study {folder.name!r}: nothing to compare with was published for the kind {kind!r}")
    try:
        if not (folder / TABLES).is_dir():
            raise OSError("no such folder")
        return of_kind(found, StoredTables(folder / TABLES)) or reproduced([], known)
    except (OSError, ValueError, KeyError) as error:
        why = f"{folder / TABLES}: no table {known['table']}, or of an earlier version ({error})"
        raise InputError(f"{why}; run: isoscope analyse {folder.name}") from None


def _text(template: str, row: Mapping[str, Any]) -> str:
    """Fill a template with a row; a dash if it has no number there."""
    fields = [name for _, name, _, _ in Formatter().parse(template) if name]
    return NOTHING if any(row[name] is None for name in fields) else template.format(**row)
